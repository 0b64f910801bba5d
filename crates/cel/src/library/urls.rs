//! `kubernetes.urls`: parts of URLs.

use object::url::Url;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::opaque::Opaque;
use crate::overload;
use crate::types::{Link, Type};
use crate::val::{Map, Val};

pub static LIBRARY: Library =
    Library { name: "kubernetes.urls", since: Version { major: 1, minor: 0 }, until: None, overloads: OVERLOADS };

const URL: Type = Type::Abstract("kubernetes.URL");
const STRINGS: Type = Type::list_of(&Type::String);
const QUERY: Type = Type::Map(Link::Static(&Type::String), Link::Static(&STRINGS));

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!("url", "string_to_url", (Type::String) -> URL, url),
    overload!(member "getScheme", "url_get_scheme", (URL) -> Type::String, scheme),
    overload!(member "getHost", "url_get_host", (URL) -> Type::String, host),
    overload!(member "getHostname", "url_get_hostname", (URL) -> Type::String, hostname),
    overload!(member "getPort", "url_get_port", (URL) -> Type::String, port),
    overload!(member "getEscapedPath", "url_get_escaped_path", (URL) -> Type::String, escaped_path),
    overload!(member "getQuery", "url_get_query", (URL) -> QUERY, query),
    overload!("isURL", "is_url_string", (Type::String) -> Type::Bool, is_url),
];

fn url<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    // The first reads a fragment as a part of the path or query, so the text is read again.
    let url = Url::parse_request_uri(text).and_then(|_| Url::parse(text));
    let url =
        url.map_err(|error| arena.error(format_args!("URL parse error during conversion from string: {error}")))?;
    Ok(Val::Opaque(Opaque::Url(arena.keep(url))))
}

fn is_url<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(Url::parse_request_uri(text).is_ok()))
}

fn scheme<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    value(args).map(|url| Val::String(&url.scheme))
}

fn host<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    value(args).map(|url| Val::String(&url.host))
}

fn hostname<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    value(args).map(|url| Val::String(url.hostname()))
}

fn port<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    value(args).map(|url| Val::String(url.port()))
}

fn escaped_path<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    value(args).map(|url| arena.string_val(&url.escaped_path()))
}

fn query<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let parameters = value(args)?.query();
    let entries = parameters.iter().map(|(name, values)| {
        let values: Vec<Val<'a>> = values.iter().map(|value| arena.string_val(value)).collect();
        (arena.string_val(name), arena.list_val(&values))
    });
    Ok(Val::Map(Map::new(entries.collect(), arena)))
}

fn value<'a>(args: &[Val<'a>]) -> Outcome<'a, &'a Url> {
    match *args {
        [Val::Opaque(Opaque::Url(url))] => Ok(url),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

//! `/statusz` and `/flagz`: what this server is and how it was started, for people who debug it.

use std::collections::BTreeMap;
use std::sync::Arc;

use authz::Permitted;
use http::{HeaderValue, StatusCode, header};
use object::timestamp::{Time, Timestamp};
use object::{GroupVersionKind, Status, Value, value};
use rest::accept::{self, AskedKind};
use rest::{Accept, Api, Body, Call, Media, Reply, ReplyBody};
use server::Paths;

use crate::Versions;

/// The component's name in both pages.
const COMPONENT: &str = "apiserver";
const GROUP: &str = "config.k8s.io";
/// Upstream shows those of the listed paths that help to debug.
const NOT_FOR_DEBUGGING: &[&str] = &["/.well-known", "/api", "/apis", "/openapi", "/openid"];

/// Answers the pages whose gates are on.
pub struct Zpages {
    statusz: bool,
    flagz: bool,
    cbor: bool,
    api: Arc<Api>,
    started: Timestamp,
    versions: Versions,
    flags: BTreeMap<String, String>,
    /// All paths that the server lists.
    listed: Vec<String>,
}

/// How a page is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageForm {
    Text,
    Structured(Media),
}

impl Zpages {
    pub fn new(api: Arc<Api>, versions: Versions, flags: BTreeMap<String, String>, listed: Vec<String>) -> Zpages {
        let features = &api.features;
        Zpages {
            statusz: features.enabled("ComponentStatusz"),
            flagz: features.enabled("ComponentFlagz"),
            cbor: features.enabled(rest::CBOR),
            started: api.clock.now(),
            api,
            versions,
            flags,
            listed,
        }
    }

    fn forms(&self) -> impl Iterator<Item = PageForm> {
        let cbor = self.cbor.then_some(PageForm::Structured(Media::Cbor));
        [PageForm::Structured(Media::Json), PageForm::Structured(Media::Yaml), PageForm::Text].into_iter().chain(cbor)
    }

    /// The first clause of the Accept header that can be honoured: text as it is, everything else as a versioned kind.
    fn negotiate<'a>(&self, call: &'a Call, kind: &str) -> Option<(PageForm, Option<AskedKind<'a>>)> {
        let asked = accept::header(&call.headers);
        if asked.trim().is_empty() {
            return Some((PageForm::Text, None));
        }
        accept::parse(asked).iter().find_map(|clause| {
            self.forms().filter(|form| clause.covers(form.content_type())).find_map(|form| {
                let convert = clause.convert(form.media())?;
                let known = |wanted: AskedKind<'_>| {
                    wanted.group == GROUP && wanted.kind == kind && matches!(wanted.version, "v1alpha1" | "v1beta1")
                };
                let allowed = match form {
                    PageForm::Text => convert.is_none(),
                    PageForm::Structured(_) => convert.is_some_and(known),
                };
                allowed.then_some((form, convert))
            })
        })
    }

    fn answer_page(&self, call: &Call, kind: &str, text: &str, mut page: Value) -> Reply {
        let Some((form, convert)) = self.negotiate(call, kind) else {
            let all: Vec<&str> = self.forms().map(PageForm::content_type).collect();
            let status =
                Status::not_acceptable(format!("only the following media types are accepted: {}", all.join(", ")));
            return rest::failure(&status, &Accept::of_status(&call.headers, &call.query));
        };
        let (PageForm::Structured(media), Some(convert)) = (form, convert) else {
            return Reply::text(StatusCode::OK, text.to_string());
        };
        page.set(&["apiVersion"], format!("{GROUP}/{}", convert.version));
        page.set(&["kind"], kind);
        let gvk = GroupVersionKind::new(GROUP, convert.version, kind);
        let bytes = rest::encode_value(&Accept::plain(media, false), &gvk, &page);
        let content_type = format!("{};g={GROUP};v={};as={kind}", media.content_type(), convert.version);
        let mut reply = Reply::new(StatusCode::OK, media.content_type(), ReplyBody::Ready(bytes));
        if let Ok(content_type) = HeaderValue::from_str(&content_type) {
            reply.headers.insert(header::CONTENT_TYPE, content_type);
        }
        if convert.version == "v1alpha1" {
            let page = kind.to_lowercase();
            reply = reply
                .warn(&[format!("This version of the {page} endpoint is deprecated. Please use a newer version.")]);
        }
        reply
    }

    fn status(&self, call: &Call) -> Reply {
        let up = (self.api.clock.now().secs - self.started.secs).max(0);
        let started = Time(self.started).to_string();
        let version = registry::Release::CURRENT;
        let (binary, emulated) = (format!("{version}.0"), self.versions.emulated.to_string());
        let paths = self.debugging_paths();
        let text = format!(
            "{}\nStarted: {started}\nUp: {} hr {:02} min {:02} sec\nGo version: \nBinary version: {binary}\n\
             Emulation version: {emulated}\nPaths: {}\n",
            head("statusz"),
            up / 3600,
            up / 60 % 60,
            up % 60,
            paths.join(" ")
        );
        let page = value!({
            "metadata": {"name": COMPONENT},
            "startTime": (started.as_str()),
            "uptimeSeconds": up,
            "goVersion": "",
            "binaryVersion": (binary.as_str()),
            "emulationVersion": (emulated.as_str()),
            "paths": (paths.clone()),
        });
        self.answer_page(call, "Statusz", &text, page)
    }

    fn flags(&self, call: &Call) -> Reply {
        let lines = self.flags.iter().map(|(name, value)| format!("{name}={value}\n"));
        let text = format!("{}{}", head("flagz"), lines.collect::<String>());
        let mut page = value!({"metadata": {"name": COMPONENT}});
        for (name, value) in &self.flags {
            page.set(&["flags", name], value.as_str());
        }
        self.answer_page(call, "Flagz", &text, page)
    }

    /// The first segments of listed paths.
    fn debugging_paths(&self) -> Vec<String> {
        let own = Paths::listed(self);
        let first =
            |path: &String| path.split('/').nth(1).filter(|part| !part.is_empty()).map(|part| format!("/{part}"));
        let mut found: Vec<String> = self.listed.iter().chain(&own).filter_map(first).collect();
        found.retain(|path| !NOT_FOR_DEBUGGING.contains(&path.as_str()));
        found.sort();
        found.dedup();
        found
    }
}

fn head(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
         guarantees and is for debugging purposes only.\n"
    )
}

impl PageForm {
    fn content_type(self) -> &'static str {
        match self {
            PageForm::Text => "text/plain",
            PageForm::Structured(media) => media.content_type(),
        }
    }

    fn media(self) -> Media {
        match self {
            PageForm::Text => Media::Json,
            PageForm::Structured(media) => media,
        }
    }
}

#[async_trait::async_trait]
impl Paths for Zpages {
    async fn answer(&self, call: &Permitted<Call>, _: &mut Body) -> Option<Reply> {
        match call.info.path.as_str() {
            "/statusz" if self.statusz => Some(self.status(call)),
            "/flagz" if self.flagz => Some(self.flags(call)),
            _ => None,
        }
    }

    fn listed(&self) -> Vec<String> {
        let pages = [("/flagz", self.flagz), ("/statusz", self.statusz)];
        pages.into_iter().filter(|(_, on)| *on).map(|(path, _)| path.to_string()).collect()
    }
}

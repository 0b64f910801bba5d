//! Clients that create, read, list, change and delete objects, and compare every answer with the model.

use http::Method;
use object::Randomness;
use serde_json::{Value, json};
use storage::Revision;

use crate::client::{Answered, Client};
use crate::kinds::{KINDS, Kind};
use crate::model::{Part, Shown};

/// Few names, so that clients get in each other's way.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const SIDES: [&str; 2] = ["left", "right"];
/// What names are generated from.
pub const GENERATED: &str = "made-";
const JSON: &str = "application/json";

/// One client, for so many requests.
pub async fn run(client: Client, requests: usize) {
    // What it last saw of each name.
    let mut seen: Vec<Shown> = Vec::new();
    for _ in 0..requests {
        client.pause(60).await;
        let kind = client.pick(&KINDS);
        let generated = seen.iter().filter(|shown| kind.has(&shown.key) && shown.key.contains(GENERATED)).last();
        let name = match generated.filter(|_| client.happens(20)) {
            Some(shown) => shown.key.rsplit('/').next().unwrap_or_default().to_string(),
            None => client.pick(&NAMES).to_string(),
        };
        let known = seen.iter().rev().find(|shown| shown.key == kind.key(&name)).map(|shown| shown.revision);
        let shown = match client.randomness.below(16) {
            0..3 => read(&client, kind, &name).await,
            3 | 4 => create(&client, kind, Some(&name)).await,
            5 | 6 => create(&client, kind, None).await,
            7..10 => replace(&client, kind, &name, known).await,
            10 | 11 => patch(&client, kind, &name, known).await,
            12 => apply(&client, kind, &name).await,
            13 => {
                delete(&client, kind, &name, known.filter(|_| client.happens(50))).await;
                None
            }
            _ => {
                list(&client, kind).await;
                None
            }
        };
        seen.extend(shown);
    }
}

/// A new number for a write, and the side its object is on.
fn value(client: &Client) -> (u64, &'static str) {
    (client.model.lock().unwrap().number(), *client.pick(&SIDES))
}

async fn read(client: &Client, kind: &Kind, name: &str) -> Option<Shown> {
    let newest = client.model.lock().unwrap().newest;
    // From the present, from any state, or from one that is as new as something that there was.
    let (query, least) = match client.randomness.below(4) {
        0 => ("?resourceVersion=0".to_string(), Some(0)),
        1 => (format!("?resourceVersion={newest}"), Some(newest)),
        _ => (String::new(), None),
    };
    let answered = client.ask(Method::GET, &[kind.path_of(name), query].concat(), "", None).await?;
    let shown = match answered.code {
        200 => Some(Shown::of(kind, &answered.body)),
        404 => None,
        code => panic!("a read got {code}: {}", answered.body),
    };
    let mut model = client.model.lock().unwrap();
    model.read(&kind.key(name), shown.as_ref(), least.unwrap_or(answered.begun.floor), least.is_none());
    shown
}

async fn create(client: &Client, kind: &Kind, name: Option<&str>) -> Option<Shown> {
    let (number, side) = value(client);
    let metadata = name.map_or_else(|| json!({"generateName": GENERATED}), |name| json!({"name": name}));
    let answered = client.ask(Method::POST, kind.path, JSON, Some(&kind.object(metadata, number, side))).await?;
    let mut model = client.model.lock().unwrap();
    match answered.code {
        201 => {
            let shown = Shown::of(kind, &answered.body);
            let is_named = shown.key == name.map_or_else(|| shown.key.clone(), |name| kind.key(name));
            assert!(is_named && (name.is_some() || shown.key.starts_with(&kind.key(GENERATED))), "{shown:?}");
            model.written(number, &shown, Some(true), None);
            Some(shown)
        }
        409 => {
            assert_eq!(answered.body["reason"], "AlreadyExists");
            match name {
                Some(name) => model.refused(Some(number), answered.begun, &kind.key(name), |there| there.is_some()),
                // Every name that was tried was taken, and the answer names the last.
                None => {
                    let taken = answered.body["details"]["name"].as_str().unwrap_or_default();
                    assert!(taken.starts_with(GENERATED), "{}", answered.body);
                    model.refused(Some(number), answered.begun, &kind.key(taken), |there| there.is_some());
                }
            }
            None
        }
        code => panic!("a creation got {code}: {}", answered.body),
    }
}

/// PUT, mostly of the version that the client saw last.
async fn replace(client: &Client, kind: &Kind, name: &str, known: Option<Revision>) -> Option<Shown> {
    let known = known.filter(|_| !kind.is_replaced_blindly || client.happens(80));
    if known.is_none() && !kind.is_replaced_blindly {
        return read(client, kind, name).await;
    }
    let (number, side) = value(client);
    let metadata = match known {
        Some(known) => json!({"name": name, "resourceVersion": known.to_string()}),
        None => json!({"name": name}),
    };
    let object = kind.object(metadata, number, side);
    let answered = client.ask(Method::PUT, &kind.path_of(name), JSON, Some(&object)).await?;
    changed(client, kind, name, number, known, &answered)
}

async fn patch(client: &Client, kind: &Kind, name: &str, known: Option<Revision>) -> Option<Shown> {
    let known = known.filter(|_| client.happens(40));
    let (number, side) = value(client);
    let mut patch = json!({"metadata": {"labels": {"side": side}}});
    patch[kind.field] = json!({"value": format!("value-{number}-{side}")});
    if let Some(known) = known {
        patch["metadata"]["resourceVersion"] = json!(known.to_string());
    }
    let media = "application/merge-patch+json";
    let answered = client.ask(Method::PATCH, &kind.path_of(name), media, Some(&patch)).await?;
    changed(client, kind, name, number, known, &answered)
}

/// Server-side apply, which creates what is not there.
async fn apply(client: &Client, kind: &Kind, name: &str) -> Option<Shown> {
    let (number, side) = value(client);
    let object = kind.object(json!({"name": name}), number, side);
    let path = [kind.path_of(name).as_str(), "?fieldManager=seeds&force=true"].concat();
    let answered = client.ask(Method::PATCH, &path, "application/apply-patch+yaml", Some(&object)).await?;
    if answered.code == 201 {
        let shown = Shown::of(kind, &answered.body);
        client.model.lock().unwrap().written(number, &shown, Some(true), None);
        return Some(shown);
    }
    changed(client, kind, name, number, None, &answered)
}

/// The answer to a change of an object that must be at a revision, if one is given.
fn changed(
    client: &Client,
    kind: &Kind,
    name: &str,
    number: u64,
    expected: Option<Revision>,
    answered: &Answered,
) -> Option<Shown> {
    let (key, mut model) = (kind.key(name), client.model.lock().unwrap());
    match answered.code {
        200 => {
            let shown = Shown::of(kind, &answered.body);
            model.written(number, &shown, Some(false), expected);
            Some(shown)
        }
        404 => {
            model.refused(Some(number), answered.begun, &key, |there| there.is_none());
            None
        }
        409 => {
            // Without a version of its own the server tries again, and gives up only where others are faster each time.
            let expected = expected.unwrap_or_else(|| panic!("a conflict without a version: {}", answered.body));
            model.refused(Some(number), answered.begun, &key, |there| {
                there.is_none_or(|there| there.revision != expected)
            });
            None
        }
        code => panic!("a change got {code}: {}", answered.body),
    }
}

async fn delete(client: &Client, kind: &Kind, name: &str, known: Option<Revision>) {
    let conditions = known.map_or(json!({}), |known| json!({"resourceVersion": known.to_string()}));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions});
    let Some(answered) = client.ask(Method::DELETE, &kind.path_of(name), JSON, Some(&options)).await else { return };
    let (key, mut model) = (kind.key(name), client.model.lock().unwrap());
    match answered.code {
        200 => model.deleted(answered.begun, &key, known),
        404 => model.refused(None, answered.begun, &key, |there| there.is_none()),
        409 => {
            let known = known.unwrap_or_else(|| panic!("a conflict without a condition: {}", answered.body));
            model.refused(None, answered.begun, &key, |there| there.is_none_or(|there| there.revision != known));
        }
        code => panic!("a deletion got {code}: {}", answered.body),
    }
}

/// Which state a list is to show.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Present,
    Any,
    NotOlderThan(Revision),
    Exactly(Revision),
}

/// A list of all, of one side, or page by page.
async fn list(client: &Client, kind: &Kind) {
    let newest = client.model.lock().unwrap().newest;
    let at = newest.saturating_sub_unsigned(client.randomness.below(12) as u64).max(1);
    let (wanted, query) = match client.randomness.below(6) {
        0 => (Wanted::Any, "resourceVersion=0".to_string()),
        1 => (Wanted::NotOlderThan(at), format!("resourceVersion={at}&resourceVersionMatch=NotOlderThan")),
        2 => (Wanted::Exactly(at), format!("resourceVersion={at}&resourceVersionMatch=Exact")),
        _ => (Wanted::Present, String::new()),
    };
    let side = client.happens(30).then(|| *client.pick(&SIDES));
    let selector = side.map_or_else(String::new, |side| format!("&labelSelector=side%3D{side}"));
    let limit = client.happens(50).then(|| 1 + client.randomness.below(3));
    // Any state will do for a list from revision 0, which has no pages then.
    let limit = limit.filter(|_| !matches!(wanted, Wanted::Any));
    let limited = limit.map_or_else(String::new, |limit| format!("&limit={limit}"));
    let path = [kind.path, "?", &query, &selector, &limited].concat();
    let Some(answered) = client.ask(Method::GET, &path, "", None).await else { return };
    if answered.code == 410 {
        let compacted = client.model.lock().unwrap().compacted;
        let is_gone = matches!(wanted, Wanted::Exactly(at) if at < compacted);
        assert!(is_gone, "{wanted:?} is expired, and only what is before {compacted} was forgotten: {}", answered.body);
        return;
    }
    assert_eq!(answered.code, 200, "a list: {}", answered.body);
    let at = revision(&answered.body);
    let is_right = match wanted {
        Wanted::Any => true,
        Wanted::Present => {
            client.model.lock().unwrap().list_is_fresh(answered.begun, at);
            true
        }
        Wanted::NotOlderThan(least) => at >= least,
        Wanted::Exactly(exactly) => at == exactly,
    };
    assert!(is_right, "a list of {wanted:?} is of {at}");
    pages(client, kind, (&selector, &limited, side), answered.body, at).await;
}

fn revision(list: &Value) -> Revision {
    let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    revision.unwrap_or_else(|| panic!("a list without a revision: {list}"))
}

/// Reads the other pages of a list; all of them together are what was there at the revision of the first.
async fn pages(
    client: &Client,
    kind: &Kind,
    (selector, limited, side): (&str, &str, Option<&str>),
    mut page: Value,
    mut at: Revision,
) {
    let shown = |page: &Value| -> Vec<Shown> {
        page["items"]
            .as_array()
            .map(|items| items.iter().map(|item| Shown::of(kind, item)).collect())
            .unwrap_or_default()
    };
    // The last key of a part that was checked already.
    let mut after: Option<String> = None;
    let mut items = shown(&page);
    while let Some(token) = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_string)
    {
        client.pause(80).await;
        let path = [kind.path, "?continue=", &token, selector, limited].concat();
        let Some(answered) = client.ask(Method::GET, &path, "", None).await else { return };
        if answered.code == 410 {
            let compacted = client.model.lock().unwrap().compacted;
            assert!(at < compacted, "a page of {at} is expired, and only what is before {compacted} was forgotten");
            // The token for the rest as it is now.
            let token = answered.body["metadata"]["continue"].as_str().unwrap_or_default().to_string();
            assert!(!token.is_empty(), "no token to go on with: {}", answered.body);
            let path = [kind.path, "?continue=", &token, selector].concat();
            let Some(rest) = client.ask(Method::GET, &path, "", None).await else { return };
            assert_eq!(rest.code, 200, "the rest of a list: {}", rest.body);
            let up_to = items.last().map(|item| item.key.clone());
            let mut model = client.model.lock().unwrap();
            model.list(kind, side, &items, at, Part { after: after.as_deref(), up_to: up_to.as_deref() });
            (after, at) = (up_to.or(after), revision(&rest.body));
            model.list_is_fresh(rest.begun, at);
            (page, items) = (rest.body, Vec::new());
            items.extend(shown(&page));
            continue;
        }
        assert_eq!(answered.code, 200, "a page: {}", answered.body);
        assert_eq!(revision(&answered.body), at, "a page of another revision");
        page = answered.body;
        items.extend(shown(&page));
    }
    client.model.lock().unwrap().list(kind, side, &items, at, Part { after: after.as_deref(), up_to: None });
}

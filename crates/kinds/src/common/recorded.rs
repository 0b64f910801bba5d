//! Cases recorded from a real server, for tests: a change in YAML a line, then the errors it causes.

use codec::Notes;
use object::{Cursor, Errors, GroupVersion, GroupVersionKind, Timestamp, Value};
use registry::{Context, Convert, Features, Strategy};
use request::User;

use crate::check::{merge, wait, yaml};

/// One change and what came of it.
#[derive(Debug)]
pub struct Case<'a> {
    /// What the update goes through.
    pub subresource: &'a str,
    /// The change of the base that was there before; None for a creation.
    pub old: Option<&'a str>,
    /// The change that is made: of the base for a creation, of what was there for an update.
    pub new: &'a str,
    pub errors: Vec<String>,
}

/// Reads cases: `>` creates, `-` and `+` are before and after an update, `@` names a subresource, `#` is a comment.
pub fn cases(text: &str) -> Vec<Case<'_>> {
    let (mut cases, mut subresource, mut old): (Vec<Case>, _, _) = (Vec::new(), "", None);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("#", _) => {}
            ("@", name) => subresource = name,
            ("-", change) => old = Some(change),
            (">", new) => cases.push(Case { subresource: "", old: None, new, errors: Vec::new() }),
            ("+", new) => cases.push(Case { subresource, old, new, errors: Vec::new() }),
            _ => {
                let error = line.replace("\\n", "\n").replace("\\\\", "\\");
                cases.last_mut().expect("an error follows a change").errors.push(error);
            }
        }
    }
    cases
}

/// Plays all cases of a file that begins with the object they change, on a line of its own: `= {metadata: …}`.
#[track_caller]
pub fn check(strategy: impl Strategy, kind: &str, text: &'static str) {
    check_with(&Features::default(), strategy, kind, text);
}

/// As [`check`], for cases that were recorded with every feature on.
#[track_caller]
pub fn check_with_all_features(strategy: impl Strategy, kind: &str, text: &'static str) {
    let mut features = Features::default();
    features.set(&[("AllAlpha".to_string(), true), ("AllBeta".to_string(), true)]).expect("these are known");
    check_with(&features, strategy, kind, text);
}

/// As [`check`], for a kind that is stored in another form than that of the cases.
#[track_caller]
pub fn check_converted(strategy: impl Strategy, convert: &'static dyn Convert, kind: &str, text: &'static str) {
    check_cases(&Features::default(), strategy, Some(convert), kind, text);
}

#[track_caller]
fn check_with(features: &Features, strategy: impl Strategy, kind: &str, text: &'static str) {
    check_cases(features, strategy, None, kind, text);
}

#[track_caller]
fn check_cases(
    features: &Features,
    strategy: impl Strategy,
    convert: Option<&'static dyn Convert>,
    kind: &str,
    text: &'static str,
) {
    let (version, kind) = kind.split_once(' ').expect("a version and a kind");
    let version = GroupVersion::parse(version).expect("a version");
    let start = text.find("\n= ").expect("an object to change");
    let (base, text) = text[start + 3..].split_once('\n').expect("cases after the object");
    let kind = Kind { strategy, kind: version.with_kind(kind), base, convert };
    let all = cases(text);
    assert!(all.len() >= 5, "the file has lost its cases");
    let played =
        all.iter().map(|case| (case, kind.play_with(case, features))).filter(|(case, got)| *got != case.errors);
    let wrong: Vec<String> = played.map(|(case, got)| format!("{case:#?}\ngot {got:#?}")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A strategy and the kind it is for, with objects going the way requests go.
pub struct Kind<S> {
    pub strategy: S,
    pub kind: GroupVersionKind,
    pub base: &'static str,
    /// From the kind's form to the stored one and back, where they differ.
    pub convert: Option<&'static dyn Convert>,
}

impl<S: Strategy> Kind<S> {
    /// Plays a case and returns the errors, each one once, as upstream answers with them.
    pub fn play(&self, case: &Case) -> Vec<String> {
        self.play_with(case, &Features::default())
    }

    pub fn play_with(&self, case: &Case, features: &Features) -> Vec<String> {
        let user = User::default();
        let cx = context(case.subresource, features, &user);
        let mut errors = Errors::new();
        match case.old {
            None => {
                let object = self.created(&cx, case.new);
                self.strategy.validate(&cx, &Cursor::root(&object), &mut errors);
            }
            Some(before) => {
                // What was there went through creation first, and its status was written afterwards.
                let mut old = self.created(&cx, before);
                let status = yaml(&format!("{{{before}}}")).field("status").clone();
                if !status.is_null() {
                    merge(old.slot(&["status"]), status);
                }
                let mut new = match self.convert {
                    Some(convert) => convert.from_storage(old.clone()).expect("a stored object"),
                    None => old.clone(),
                };
                merge(&mut new, yaml(&format!("{{{}}}", case.new)));
                let mut new = self.decoded(new);
                for object in [&mut old, &mut new] {
                    object.set(&["metadata", "resourceVersion"], "1");
                }
                self.update(&cx, &mut new, &old, &mut errors);
            }
        }
        let mut messages: Vec<String> = Vec::new();
        for message in errors.iter().map(ToString::to_string) {
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
        messages
    }

    fn update(&self, cx: &Context, new: &mut Value, old: &Value, errors: &mut Errors) {
        let strategy: &dyn Strategy = &self.strategy;
        match cx.subresource {
            "" => {
                new.keep(&["status"], old);
                strategy.prepare_update(cx, new, old);
                strategy.validate_update(cx, &Cursor::root(new), &Cursor::root(old), errors);
            }
            "status" => {
                new.keep(&["spec"], old);
                strategy.prepare_status_update(cx, new, old);
                wait(strategy.authorize_status_update(cx, new, old, errors));
                strategy.validate_status_update(cx, &Cursor::root(new), &Cursor::root(old), errors);
            }
            _ => {
                strategy.prepare_subresource(cx, new, old);
                strategy.validate_subresource(cx, &Cursor::root(new), &Cursor::root(old), errors);
            }
        }
    }

    /// The base with a change, as it is stored.
    pub fn created(&self, cx: &Context, change: &str) -> Value {
        let mut object = yaml(self.base);
        merge(&mut object, yaml(&format!("{{{change}}}")));
        let mut object = self.decoded(object);
        let facts = self.strategy.facts();
        if facts.has_status && !facts.keeps_status_on_create {
            object.remove(&["status"]);
        }
        self.strategy.prepare_create(cx, &mut object);
        object
    }

    pub fn decoded(&self, object: Value) -> Value {
        let schema = schema::builtin().schema(&self.kind).expect("a kind that is served");
        let mut json = Vec::new();
        codec::json::encode(&object, None, &mut json);
        let mut object = codec::json::decode(&json, Some(schema), &mut Notes::ignore()).expect("an object of the kind");
        schema::default(schema, &mut object);
        self.strategy.default(&mut object);
        match self.convert {
            Some(convert) => convert.to_storage(object).expect("an object of the kind"),
            None => object,
        }
    }
}

pub fn context<'a>(subresource: &'a str, features: &'a Features, user: &'a User) -> Context<'a> {
    let now = Timestamp::new(1_700_000_000, 0);
    Context { namespace: "default", subresource, ..Context::of_server(now, user, features) }
}

//! [`Visible`]: which objects of a list or watch its user may see, where it may not see all of them.

use std::sync::Arc;
use std::time::Duration;

use cache::{Cache, Part, Start, Watcher};
use futures::StreamExt;
use futures::stream::BoxStream;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use request::{Access, RequestInfo, User};

use crate::Authorizer;

/// When decisions of an authorizer have last changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionsChanged {
    /// Another number after each change.
    pub generation: i64,
    /// The store's revision of the latest change; 0 if none is known.
    pub revision: i64,
}

impl DecisionsChanged {
    /// Both together.
    pub fn join(self, other: DecisionsChanged) -> DecisionsChanged {
        DecisionsChanged {
            generation: self.generation.wrapping_add(other.generation),
            revision: self.revision.max(other.revision),
        }
    }
}

/// The wakes of an authorizer: an item after decisions may have changed.
pub type Changes = BoxStream<'static, ()>;

/// A watch of a cache that failed begins again after this time.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Comes after each change of a cache, and after one that may have been missed.
pub fn changes_of(cache: Arc<Cache>, part: Part) -> Changes {
    futures::stream::unfold(None::<Watcher>, move |watcher| {
        let (cache, part) = (cache.clone(), part.clone());
        async move {
            let watcher = match watcher {
                Some(mut watcher) => watcher.next().await.map(|_| watcher),
                // Changes before the watch began may not have been looked at, so that it begins with a wake.
                None => cache.watch(part, Start::After(cache.revision())).await,
            };
            let watcher = match watcher {
                Ok(watcher) => Some(watcher),
                Err(error) => {
                    tracing::debug!(%error, "a watch of a cache ended; watching again");
                    tokio::time::sleep(WATCH_AGAIN).await;
                    None
                }
            };
            Some(((), watcher))
        }
    })
    .boxed()
}

/// Decides what one user may see of what one request asks for. A decision is made once for a namespace, and for each object that a rule names
/// where the namespace as a whole may not be seen.
pub struct Visible {
    authorizer: Arc<dyn Authorizer>,
    user: User,
    info: RequestInfo,
    /// The verb that decides.
    verb: &'static str,
    decided: Mutex<HashMap<Box<str>, VisibleExtent>>,
}

/// How much of a namespace may be seen.
enum VisibleExtent {
    Everything,
    /// Objects with the names that rules have; whether each may be seen is asked when there is such an object.
    Named {
        names: HashSet<String>,
        seen: HashMap<Box<str>, bool>,
    },
}

impl Visible {
    pub fn new(authorizer: Arc<dyn Authorizer>, user: User, info: RequestInfo) -> Visible {
        Visible { authorizer, user, verb: info.verb.as_str(), info, decided: Mutex::default() }
    }

    /// The same where another verb decides.
    pub fn with_verb(self, verb: &'static str) -> Visible {
        Visible { verb, ..self }
    }

    /// When decisions last changed.
    pub fn changed(&self) -> DecisionsChanged {
        self.authorizer.changed()
    }

    /// Wakes when decisions may have changed.
    pub fn changes(&self) -> Vec<Changes> {
        self.authorizer.changes()
    }

    /// Forgets what was decided.
    pub fn forget(&self) {
        self.decided.lock().clear();
    }

    /// Forgets what was decided about a namespace.
    pub fn undecide(&self, namespace: &str) {
        self.decided.lock().remove(namespace);
    }

    /// Decides about an object, unless that is known. True if an authorizer was asked. Err says why an authorizer could not decide: then nothing is known, and a list
    /// without the object would say that there is none.
    pub async fn decide(&self, namespace: &str, name: &str) -> Result<bool, String> {
        enum Ask {
            Namespace,
            Name,
        }
        let ask = match self.decided.lock().get(namespace) {
            None => Ask::Namespace,
            Some(VisibleExtent::Named { names, seen }) if names.contains(name) && !seen.contains_key(name) => Ask::Name,
            Some(_) => return Ok(false),
        };
        let access = Access { namespace, verb: self.verb, ..Access::of(&self.info, &self.user) };
        if let Ask::Namespace = ask {
            let extent = match self.is_allowed(&access).await? {
                true => VisibleExtent::Everything,
                false => VisibleExtent::Named { names: self.names(&access), seen: HashMap::new() },
            };
            let is_named = matches!(&extent, VisibleExtent::Named { names, .. } if names.contains(name));
            self.decided.lock().insert(namespace.into(), extent);
            if !is_named {
                return Ok(true);
            }
        }
        let may = self.is_allowed(&Access { name, ..access }).await?;
        if let Some(VisibleExtent::Named { seen, .. }) = self.decided.lock().get_mut(namespace) {
            seen.insert(name.into(), may);
        }
        Ok(true)
    }

    /// The names of the objects of a namespace that the user may see, whether there are such objects or not; None for all of them.
    pub async fn names_in(&self, namespace: &str) -> Result<Option<Vec<String>>, String> {
        self.decide(namespace, "").await?;
        let mut names: Vec<String> = match self.decided.lock().get(namespace) {
            Some(VisibleExtent::Everything) => return Ok(None),
            Some(VisibleExtent::Named { names, .. }) => names.iter().cloned().collect(),
            None => Vec::new(),
        };
        for name in &names {
            self.decide(namespace, name).await?;
        }
        names.retain(|name| self.sees(namespace, name));
        names.sort();
        Ok(Some(names))
    }

    /// Whether the user may see an object. What was not decided about is not seen.
    pub fn sees(&self, namespace: &str, name: &str) -> bool {
        match self.decided.lock().get(namespace) {
            None => false,
            Some(VisibleExtent::Everything) => true,
            Some(VisibleExtent::Named { seen, .. }) => seen.get(name) == Some(&true),
        }
    }

    async fn is_allowed(&self, access: &Access<'_>) -> Result<bool, String> {
        let decision = self.authorizer.decide(access).await;
        match decision.error {
            Some(error) if !decision.is_allowed() => Err(error),
            _ => Ok(decision.is_allowed()),
        }
    }

    /// The names of single objects that rules for the user have.
    fn names(&self, access: &Access<'_>) -> HashSet<String> {
        // A request for one object by its name was answered with the namespace.
        if !access.name.is_empty() {
            return HashSet::new();
        }
        let rules = self.authorizer.rules_for(&self.user, access.namespace).rules;
        rules.iter().filter(|rule| rule.covers(access)).flat_map(|rule| rule.names.iter().cloned()).collect()
    }
}

impl std::fmt::Debug for Visible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "what {} may {} of {}", self.user.name, self.verb, self.info.resource)
    }
}

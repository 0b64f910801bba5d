//! [`Autoregister`]: the APIServices that the server makes by itself, for built-in groups and for custom resource definitions.
//!
//! | stored | none wanted | wanted on start | wanted always |
//! |---|---|---|---|
//! | nothing | | create once | create |
//! | not made by a server | | | |
//! | made on start, not there at this start | | | |
//! | made on start, there at this start | delete once | update once | update once |
//! | kept always | delete | update once | update |
//!
//! "Once" is the first time after this server has started: an administrator may remove or change what belongs to a built-in
//! group until then.

use futures::{StreamExt, stream};
use hashbrown::{HashMap, HashSet};
use object::{GroupVersion, Meta, Str, Value, value};
use parking_lot::Mutex;
use rest::client::{Client, Collection, Failure};
use std::time::Duration;
use tokio::sync::Notify;

use crate::service::{ApiService, MANAGED_LABEL, Managed, name_of};
use crate::{CUSTOM, priorities};

pub static SERVICES: Collection = Collection::new("apiregistration.k8s.io", "v1", "apiservices");
/// Writes under way at once: the store commits them together.
const AT_ONCE: usize = 32;
/// How long a write that failed waits before it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The APIServices that should be stored, and those that are to be compared with them.
#[derive(Default)]
pub struct Autoregister {
    state: Mutex<AutoregisterState>,
    wake: Notify,
    /// Tells that names have been compared.
    compared: Notify,
}

#[derive(Default)]
struct AutoregisterState {
    wanted: HashMap<Str, ApiService>,
    /// The group-versions that each definition serves, by its name.
    definitions: HashMap<Str, Vec<GroupVersion>>,
    /// How many definitions serve a group-version.
    served: HashMap<GroupVersion, usize>,
    /// Names of APIServices that were stored when the server started.
    at_start: HashSet<Str>,
    /// Names that were compared, and written if need be, since the server started.
    synced: HashSet<Str>,
    /// Names that are to be compared.
    pending: HashSet<Str>,
    /// Whether names are being compared.
    comparing: bool,
    /// Definitions that cannot be read.
    unreadable: HashSet<Str>,
    /// Names that are compared again when all definitions can be read.
    postponed: HashSet<Str>,
}

/// The write that one name needs.
#[derive(Debug, PartialEq)]
enum RegisterAction {
    Nothing,
    Create(ApiService),
    Update(ApiService),
    Delete,
}

impl Autoregister {
    /// Wants APIServices for built-in group-versions.
    pub fn add_builtin<'a>(&self, versions: impl Iterator<Item = &'a GroupVersion>) {
        let mut state = self.state.lock();
        for version in versions {
            if let Some(priority) = priorities::builtin(version) {
                let service = ApiService::local(version.clone(), priority, Managed::OnStart);
                state.pending.insert(service.name.clone());
                state.wanted.insert(service.name.clone(), service);
            }
        }
    }

    /// Wants APIServices for what a definition serves now, and no longer for what it served before. While it is not known what
    /// some definition serves (None), no APIService is deleted.
    pub fn set_definition(&self, name: &str, versions: Option<Vec<GroupVersion>>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(versions) = versions else {
            state.unreadable.insert(name.into());
            return;
        };
        if state.unreadable.remove(name) && state.unreadable.is_empty() {
            state.pending.extend(state.postponed.drain());
            self.wake.notify_one();
        }
        let before = match versions.is_empty() {
            true => state.definitions.remove(name),
            false => state.definitions.insert(name.into(), versions.clone()),
        };
        let before = before.unwrap_or_default();
        if before == versions {
            return;
        }
        for version in versions.iter().filter(|version| !before.contains(version)) {
            let uses = state.served.entry(version.clone()).or_default();
            *uses += 1;
            if *uses == 1 {
                let service = ApiService::local(version.clone(), CUSTOM, Managed::Always);
                state.pending.insert(service.name.clone());
                state.wanted.insert(service.name.clone(), service);
            }
        }
        for version in before.iter().filter(|version| !versions.contains(version)) {
            let uses = state.served.get_mut(version).map_or(0, |uses| {
                *uses -= 1;
                *uses
            });
            if uses == 0 {
                state.served.remove(version);
                state.pending.insert(name_of(version));
                state.wanted.remove(&name_of(version));
            }
        }
        self.wake.notify_one();
    }

    /// Notes what was stored when the server started; all of it is compared.
    pub fn set_stored(&self, names: impl Iterator<Item = Str>) {
        let mut state = self.state.lock();
        state.at_start = names.collect();
        let names: Vec<Str> = state.at_start.iter().cloned().collect();
        state.pending.extend(names);
    }

    /// Compares a name, because what is stored has changed.
    pub fn changed(&self, name: Str) {
        self.state.lock().pending.insert(name);
        self.wake.notify_one();
    }

    /// Compares what was noted until now, and writes what is to be written. Those that failed are noted again.
    pub async fn sync(&self, client: &Client) -> usize {
        let names: Vec<Str> = {
            let mut state = self.state.lock();
            state.comparing = true;
            state.pending.drain().collect()
        };
        let work = names.into_iter().map(|name| async move {
            let outcome = self.sync_one(client, &name).await;
            (name, outcome)
        });
        let outcomes: Vec<(Str, Result<(), Failure>)> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
        let mut failed = 0;
        let mut state = self.state.lock();
        state.comparing = false;
        for (name, outcome) in outcomes {
            match outcome {
                Ok(()) => drop(state.synced.insert(name)),
                Err(failure) => {
                    tracing::warn!(%name, %failure, "an APIService cannot be registered");
                    state.pending.insert(name);
                    failed += 1;
                }
            }
        }
        drop(state);
        self.compared.notify_waiters();
        failed
    }

    /// Waits until every name that was noted has been compared.
    pub async fn settled(&self) {
        loop {
            let mut compared = std::pin::pin!(self.compared.notified());
            compared.as_mut().enable();
            {
                let state = self.state.lock();
                if state.pending.is_empty() && !state.comparing {
                    return;
                }
            }
            compared.await;
        }
    }

    /// Compares each APIService that changes with what it should be. Never returns.
    pub async fn run(&self, client: Client) {
        loop {
            if self.sync(&client).await > 0 {
                tokio::time::sleep(RETRY_AFTER).await;
            } else if self.state.lock().pending.is_empty() {
                self.wake.notified().await;
            }
        }
    }

    async fn sync_one(&self, client: &Client, name: &Str) -> Result<(), Failure> {
        let item = SERVICES.item(name);
        let stored = match client.get(&item).await {
            Ok(stored) => Some(stored),
            Err(failure) if failure.is_not_found() => None,
            Err(failure) => return Err(failure),
        };
        let action = {
            let mut state = self.state.lock();
            match state.action(name, stored.as_ref()) {
                RegisterAction::Delete if !state.unreadable.is_empty() => {
                    state.postponed.insert(name.clone());
                    RegisterAction::Nothing
                }
                action => action,
            }
        };
        let outcome = match (action, stored) {
            (RegisterAction::Create(service), _) => client.create(&SERVICES, &object_of(&service)).await.map(drop),
            (RegisterAction::Update(service), Some(mut object)) => {
                object.set(&["spec"], service.local_spec());
                client.replace(&item, &object).await.map(drop)
            }
            (RegisterAction::Delete, Some(object)) => {
                let options = value!({"preconditions": {"uid": (object.uid())}});
                client.delete(&item, &options).await
            }
            _ => Ok(()),
        };
        match outcome {
            // It changed in the meantime: the watch brings it here again.
            Err(failure) if matches!(failure.code, 404 | 409) => Ok(()),
            outcome => outcome,
        }
    }
}

impl AutoregisterState {
    /// The table in the head of this file.
    fn action(&self, name: &Str, stored: Option<&Value>) -> RegisterAction {
        let wanted = self.wanted.get(name);
        let synced = self.synced.contains(name);
        let wanted_on_start = wanted.is_some_and(|wanted| wanted.managed == Some(Managed::OnStart));
        let Some(stored) = stored else {
            return match wanted {
                Some(wanted) if !(wanted_on_start && synced) => RegisterAction::Create(wanted.clone()),
                _ => RegisterAction::Nothing,
            };
        };
        let managed = ApiService::read(stored).managed;
        let on_start = managed == Some(Managed::OnStart);
        match wanted {
            _ if wanted_on_start && synced => RegisterAction::Nothing,
            _ if managed.is_none() => RegisterAction::Nothing,
            _ if on_start && (synced || !self.at_start.contains(name)) => RegisterAction::Nothing,
            None => RegisterAction::Delete,
            Some(wanted) if *stored.field("spec") == wanted.local_spec() => RegisterAction::Nothing,
            Some(wanted) => RegisterAction::Update(wanted.clone()),
        }
    }
}

fn object_of(service: &ApiService) -> Value {
    let mut object = value!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": (service.name.clone())},
        "spec": (service.local_spec()),
    });
    if let Some(managed) = service.managed {
        object.set(&["metadata", "labels", MANAGED_LABEL], managed.as_str());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> GroupVersion {
        GroupVersion::new("batch", "v1")
    }

    /// A row of the table: (wanted, stored, whether it was there at the start, whether it was compared before) → what is done.
    #[test]
    fn the_table_is_followed() {
        use Managed::{Always, OnStart};
        let cases: &[(Option<Managed>, Option<Option<Managed>>, bool, bool, &str)] = &[
            (None, None, false, false, "nothing"),
            (Some(OnStart), None, false, false, "create"),
            (Some(OnStart), None, true, true, "nothing"),
            (Some(Always), None, true, true, "create"),
            (None, Some(None), true, false, "nothing"),
            (Some(Always), Some(None), true, false, "nothing"),
            (None, Some(Some(OnStart)), false, false, "nothing"),
            (None, Some(Some(OnStart)), true, false, "delete"),
            (None, Some(Some(OnStart)), true, true, "nothing"),
            (Some(OnStart), Some(Some(OnStart)), true, false, "update"),
            (Some(OnStart), Some(Some(OnStart)), true, true, "nothing"),
            (Some(Always), Some(Some(OnStart)), true, false, "update"),
            (None, Some(Some(Always)), false, true, "delete"),
            (Some(OnStart), Some(Some(Always)), false, false, "update"),
            (Some(OnStart), Some(Some(Always)), false, true, "nothing"),
            (Some(Always), Some(Some(Always)), false, true, "update"),
        ];
        let name = name_of(&version());
        for (wanted, stored, at_start, synced, expected) in cases {
            let mut state = AutoregisterState::default();
            if let Some(managed) = wanted {
                state.wanted.insert(name.clone(), ApiService::local(version(), CUSTOM, *managed));
            }
            state.at_start.extend(at_start.then(|| name.clone()));
            state.synced.extend(synced.then(|| name.clone()));
            let stored = stored.map(|managed| {
                let mut service = ApiService::local(version(), CUSTOM, Managed::Always);
                service.managed = managed;
                service.priority.version += 1;
                object_of(&service)
            });
            let done = match state.action(&name, stored.as_ref()) {
                RegisterAction::Nothing => "nothing",
                RegisterAction::Create(_) => "create",
                RegisterAction::Update(_) => "update",
                RegisterAction::Delete => "delete",
            };
            assert_eq!(done, *expected, "{wanted:?} {stored:?} at start: {at_start}, synced: {synced}");
        }
    }

    #[test]
    fn what_is_as_it_should_be_is_left_alone() {
        let service = ApiService::local(version(), CUSTOM, Managed::Always);
        let mut state = AutoregisterState::default();
        state.wanted.insert(service.name.clone(), service.clone());
        assert_eq!(state.action(&service.name, Some(&object_of(&service))), RegisterAction::Nothing);
    }

    #[test]
    fn a_group_version_is_wanted_while_a_definition_serves_it() {
        let registered = Autoregister::default();
        let wanted = |expected: bool| {
            assert_eq!(registered.state.lock().wanted.contains_key(&name_of(&version())), expected);
        };
        registered.set_definition("a.batch", Some(vec![version()]));
        registered.set_definition("b.batch", Some(vec![version()]));
        registered.set_definition("a.batch", Some(Vec::new()));
        wanted(true);
        registered.set_definition("b.batch", Some(vec![GroupVersion::new("batch", "v2")]));
        wanted(false);
    }
}

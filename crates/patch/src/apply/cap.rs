//! A bound on how many managers that update are remembered.

use std::collections::BTreeMap;

use object::Str;

use super::managed::{Id, Managed};

/// Beyond these, the oldest are remembered as one.
const MAX_UPDATE_MANAGERS: usize = 10;
const OLDEST: &str = "ancient-changes";

impl Managed {
    /// Joins the managers that have not written for longest, by version, until there are few enough.
    pub fn cap(&mut self) {
        let mut updaters: Vec<Id> =
            self.owners.iter().filter(|(_, owned)| !owned.applied).map(|(id, _)| id.clone()).collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort_by_key(|id| self.seconds(id));
        let mut first_of_version: BTreeMap<Str, Id> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                break;
            }
            let Some(version) = self.owners.get(&id).map(|owned| owned.version.clone()) else { continue };
            let bucket = Id::updater(OLDEST, &version, "");
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            // Into the bucket go this one and, if it is not there yet, the first one of its version.
            let joining = [first.clone(), id.clone()];
            for id in joining.into_iter().filter(|id| *id != bucket) {
                if let Some(owned) = self.owners.remove(&id) {
                    self.add(&bucket, owned);
                }
            }
            count -= 1;
            // The bucket is as young as the youngest in it.
            match self.times.get(&id).cloned() {
                Some(time) => self.times.insert(bucket, time),
                None => self.times.remove(&bucket),
            };
        }
    }
}

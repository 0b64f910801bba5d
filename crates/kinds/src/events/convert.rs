//! Events as events.k8s.io/v1 names their fields, and as the core group does, in which form they are stored.

use object::{Meta, Value};
use registry::Convert;

/// Each field that has two names: events.k8s.io, core.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Between events.k8s.io/v1 and the core group's v1.
pub struct Conversion;

impl Convert for Conversion {
    fn to_storage(&self, mut event: Value) -> Result<Value, String> {
        rename(&mut event, "v1", NAMES);
        Ok(event)
    }

    fn from_storage(&self, mut event: Value) -> Result<Value, String> {
        rename(&mut event, "events.k8s.io/v1", NAMES.map(|(new, core)| (core, new)));
        Ok(event)
    }
}

fn rename(event: &mut Value, api_version: &str, names: [(&str, &str); 7]) {
    let known = !event.api_version().is_empty();
    let Some(fields) = event.as_map_mut() else { return };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to, value);
        }
    }
    if known {
        fields.insert("apiVersion", api_version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::value;

    #[test]
    fn fields_change_their_names_and_back() {
        let new = value!({"apiVersion": "events.k8s.io/v1", "regarding": {"name": "p"}, "note": "n", "reason": "r",
            "reportingController": "c", "deprecatedCount": 2, "deprecatedSource": {"host": "h"}});
        let core = value!({"apiVersion": "v1", "involvedObject": {"name": "p"}, "message": "n", "reason": "r",
            "reportingComponent": "c", "count": 2, "source": {"host": "h"}});
        assert_eq!(Conversion.to_storage(new.clone()), Ok(core.clone()));
        assert_eq!(Conversion.from_storage(core), Ok(new));
    }
}

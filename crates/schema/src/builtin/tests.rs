//! The checked-in table, and what the recorded golden objects say about it.

use super::*;

#[test]
fn the_table_is_read_whole() {
    let builtin = builtin();
    assert!(builtin.types().structs().count() > 1300);
    assert_eq!(builtin.kind("", "v1", "Pod").unwrap().list.as_deref(), Some("PodList"));
    assert!(builtin.kind("apps", "v1", "DeleteOptions").is_some());
    assert!(builtin.kind("nope", "v1", "DeleteOptions").is_none());
    let on = builtin.groups().iter().flat_map(|g| &g.versions).filter(|v| v.enabled).count();
    assert_eq!(on, 23);
    let events = builtin.resource("events.k8s.io", "v1", "events").unwrap();
    assert_eq!(events.stored, Some(GroupVersionKind::new("", "v1", "Event")));
}

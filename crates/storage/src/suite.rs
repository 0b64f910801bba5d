//! The tests every engine passes. `storage::suite!(factory)` in a test module makes one test of each property.
//!
//! The factory is an `async fn() -> Arc<dyn Store>` whose store no other test uses: some properties compact it. It may return
//! an option, for engines that need something that is not installed everywhere. Properties keep
//! their keys under a prefix of their own and do not assume that revisions are consecutive.

// This is test code that other crates compile as a library: a failed assumption is a failed test.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]
#![allow(missing_docs)] // The names of tests say what they test.

pub mod basics;
pub mod compaction;
pub mod concurrency;
pub mod expiry;
pub mod linearizability;
pub mod ranges;
pub mod steps;
pub mod subscriptions;
pub mod watches;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use crate::{Batch, Error, Event, Key, KeyRange, Result, Revision, Store, WatchRequest, WatchStream};

/// Longer than anything here takes on a busy machine; reaching it is a failure, never a way to go on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a test of every property for the engine that the factory builds.
#[macro_export]
macro_rules! suite {
    ($factory:path) => {
        $crate::suite!(@tests $factory,
            basics: create_update_delete, preconditions_return_the_current_entry, counters_of_an_entry,
                unconditional_writes, what_has_changed_is_not_unchanged, keys_and_values_are_any_bytes, old_revisions_of_a_key, too_large_values_are_refused,
                status_tells_the_revision;
            steps: several_keys_change_in_one_step, a_step_that_is_refused_changes_nothing, a_step_has_limits,
                readers_see_all_of_a_step_or_nothing;
            ranges: a_prefix_and_nothing_else, limit_more_and_count, keys_only_leaves_values_out,
                pages_at_a_revision_ignore_later_writes, old_revisions_of_a_range, large_ranges_are_one_state;
            watches: every_kind_of_event, resume_after_every_revision, from_now_on, from_the_future, only_the_range,
                marks_follow_progress, marks_never_run_ahead, a_slow_watcher_loses_nothing, watchers_among_writers,
                previous_entries_are_what_was_replaced;
            subscriptions: a_subscriber_sees_everything_in_order, a_read_after_a_write_finds_the_subscriber_ready,
                a_dropped_subscription_is_quiet, a_subscriber_who_comes_too_late_is_told;
            compaction: the_past_is_gone_the_present_stays, compaction_does_nothing_twice,
                the_first_event_after_compaction_has_its_previous_entry, deleted_keys_stay_deleted,
                watchers_race_compaction, pages_race_compaction, writers_race_compaction;
            expiry: a_key_expires_by_itself, writing_again_renews_or_ends_the_ttl, many_keys_expire,
                what_has_expired_is_not_there;
            concurrency: increments_are_not_lost, one_creator_wins, cancelled_callers_do_no_harm,
                cancelled_changes_happen_whole_or_not_at_all,
                revisions_follow_real_time, concurrent_histories_are_linearizable;
        );
    };
    (@tests $factory:path, $($module:ident: $($property:ident),*;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $property() {
                let store: Option<std::sync::Arc<dyn $crate::Store>> = $factory().await.into();
                if let Some(store) = store {
                    $crate::suite::$module::$property(store).await;
                }
            }
        )*)*
    };
}

/// Fails instead of hanging.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

pub(crate) fn text(value: impl ToString) -> Bytes {
    Bytes::from(value.to_string())
}

/// Writes whatever is there.
pub(crate) async fn put(store: &Arc<dyn Store>, key: impl Into<Key>, value: impl ToString) -> Revision {
    use crate::{Change, Expect, Write};
    let change = Change::Put { value: text(value), ttl: None };
    store.write(Write { key: key.into(), change, expect: Expect::Any }).await.unwrap().revision
}

pub(crate) async fn delete(store: &Arc<dyn Store>, key: impl Into<Key>) -> Revision {
    store.delete(key.into(), None).await.unwrap().revision
}

pub(crate) async fn value_of(store: &Arc<dyn Store>, key: &str, at: Option<Revision>) -> Option<String> {
    let entry = store.get(key.as_bytes(), at).await.unwrap().entry?;
    Some(String::from_utf8(entry.value.to_vec()).unwrap())
}

pub(crate) async fn watch(store: &Arc<dyn Store>, prefix: &str, after: Revision) -> WatchStream {
    store.watch(WatchRequest::after(KeyRange::prefix(prefix), after)).await.unwrap()
}

/// The next batch with events in it.
pub(crate) async fn next_events(stream: &mut WatchStream) -> Result<Batch> {
    loop {
        let batch = soon("a batch of events", stream.next()).await.expect("the stream must not end by itself")?;
        if !batch.events.is_empty() {
            return Ok(batch);
        }
    }
}

/// Exactly `count` events, checked to be in order.
pub(crate) async fn take_events(stream: &mut WatchStream, count: usize) -> Vec<Arc<Event>> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    while events.len() < count {
        let batch = next_events(stream).await.unwrap();
        assert!(batch.events.iter().all(|event| event.revision <= batch.revision), "{batch:?}");
        events.extend(batch.events);
    }
    assert_eq!(events.len(), count, "more events than changes");
    assert!(events.is_sorted_by_key(|event| event.revision), "events out of order");
    events
}

/// A short form of an event for comparisons: `+key=value` created, `~key=value (old)` changed, `-key (old)` deleted.
pub(crate) fn brief(event: &Event) -> String {
    let show = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
    match (&event.entry, &event.previous) {
        (Some(entry), None) => format!("+{}={}", event.key, show(&entry.value)),
        (Some(entry), Some(old)) => format!("~{}={} ({})", event.key, show(&entry.value), show(&old.value)),
        (None, Some(old)) => format!("-{} ({})", event.key, show(&old.value)),
        (None, None) => format!("-{}", event.key),
    }
}

pub(crate) fn is_compacted<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Compacted { .. }))
}

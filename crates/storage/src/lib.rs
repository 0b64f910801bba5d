//! The Store trait: a log of revisions over keys and bytes; encryption at rest; the suite every engine passes.

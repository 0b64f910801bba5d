//! Attacks on a running server, a module for each kind. docs/security.md names the tests that keep each CVE closed.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod abandoned;
mod aggregation;
mod certificates;
mod configuration;
#[cfg(target_os = "linux")] // Others have one address for this machine only.
mod connections;
mod console;
mod credentials;
mod cves;
mod definitions;
mod files;
mod identity;
mod matrix;
mod nodes;
mod peer;
mod reads;
mod seats;
mod shares;
mod smuggling;
mod space;
mod streams;
mod targets;
mod test_servers;
mod trust;
mod upgrades;
mod webhooks;

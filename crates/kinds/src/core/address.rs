//! Addresses and networks in fields that are older than strict checking.

use std::collections::BTreeSet;

use object::{Cursor, Errors, names};
use registry::Context;

use crate::common::checks::report;

/// The texts that the old object had.
pub type Known<'a> = BTreeSet<&'a str>;

/// An address; one that the old object already had is fine as it is.
pub fn legacy_ip(cx: &Context, ip: &Cursor, old: &Known, errors: &mut Errors) -> bool {
    if old.contains(ip.str()) {
        return true;
    }
    let messages = names::ip_for_legacy_field(ip.str(), cx.features.enabled("StrictIPCIDRValidation"));
    let fine = messages.is_empty();
    report(errors, ip.path(), ip.str(), messages);
    fine
}

/// A network; one that the old object already had is fine as it is.
pub fn legacy_cidr(cx: &Context, cidr: &Cursor, text: &str, old: &Known, errors: &mut Errors) {
    if !old.contains(text) {
        let messages = names::cidr_for_legacy_field(text, cx.features.enabled("StrictIPCIDRValidation"));
        report(errors, cidr.path(), text, messages);
    }
}

//! Constraints on e-mail addresses: whole ones, or their domains.

use super::dns;
use crate::mailbox::Mailbox;

pub(super) struct Set<'a> {
    whole: Vec<Mailbox>,
    domains: Option<dns::Set<'a>>,
}

impl<'a> Set<'a> {
    pub fn new(constraints: &'a [String], is_permitted: bool) -> Option<Set<'a>> {
        let (whole, domains): (Vec<&str>, Vec<&str>) =
            constraints.iter().map(String::as_str).partition(|constraint| constraint.contains('@'));
        let whole = whole.into_iter().filter_map(Mailbox::parse).collect();
        (!constraints.is_empty()).then(|| Set { whole, domains: dns::Set::of(domains, is_permitted) })
    }

    pub fn find(&self, mailbox: &Mailbox) -> Option<String> {
        if self.whole.contains(mailbox) {
            return Some(mailbox.to_string());
        }
        self.domains.as_ref()?.find(&mailbox.domain)
    }
}

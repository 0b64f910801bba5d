//! Certificate policies: whether a chain is valid for any policy at all (RFC 5280, section 6.1, as RFC 9618 changes it).

use std::collections::{BTreeMap, BTreeSet};

use crate::certificate::Certificate;

/// The contents of the object identifier 2.5.29.32.0.
const ANY_POLICY: &[u8] = &[0x55, 0x1d, 0x20, 0];

type Oid = Vec<u8>;

/// A policy at one depth of the chain.
#[derive(Clone, Debug, Default)]
struct PolicyNode {
    expected: Vec<Oid>,
    /// Policies at the depth above.
    parents: BTreeSet<Oid>,
}

/// The policies by depth, the trust anchor's first.
struct PolicyGraph {
    strata: Vec<BTreeMap<Oid, PolicyNode>>,
}

impl PolicyGraph {
    fn new() -> PolicyGraph {
        let root = PolicyNode { expected: vec![ANY_POLICY.to_vec()], parents: BTreeSet::new() };
        PolicyGraph { strata: vec![BTreeMap::from([(ANY_POLICY.to_vec(), root)])] }
    }

    fn above(&self) -> Option<&BTreeMap<Oid, PolicyNode>> {
        self.strata.len().checked_sub(2).and_then(|at| self.strata.get(at))
    }

    fn insert(&mut self, policy: &[u8], expected: Vec<Oid>, parents: BTreeSet<Oid>) {
        if let Some(leaves) = self.strata.last_mut() {
            leaves.insert(policy.to_vec(), PolicyNode { expected, parents });
        }
    }

    fn leaf(&mut self, policy: &[u8]) -> Option<&mut PolicyNode> {
        self.strata.last_mut()?.get_mut(policy)
    }

    /// Removes what has nothing below it, up to the trust anchor's.
    fn prune(&mut self) {
        for depth in (1..self.strata.len().saturating_sub(1)).rev() {
            let used: BTreeSet<Oid> = self.strata[depth + 1].values().flat_map(|node| node.parents.clone()).collect();
            self.strata[depth].retain(|policy, _| used.contains(policy));
        }
    }

    /// Adds the policies of the next certificate. `takes_any`: what is expected above and not named is there by `anyPolicy`.
    fn descend(&mut self, policies: &[Oid], takes_any: bool) {
        self.strata.push(BTreeMap::new());
        let above = self.above().cloned().unwrap_or_default();
        for policy in policies.iter().filter(|policy| *policy != ANY_POLICY) {
            let expecting = above.iter().filter(|(_, node)| node.expected.contains(policy));
            let mut parents: BTreeSet<Oid> = expecting.map(|(parent, _)| parent.clone()).collect();
            if parents.is_empty() && above.contains_key(ANY_POLICY) {
                parents.insert(ANY_POLICY.to_vec());
            }
            if !parents.is_empty() {
                self.insert(policy, vec![policy.clone()], parents);
            }
        }
        if takes_any {
            let mut missing: BTreeMap<Oid, BTreeSet<Oid>> = BTreeMap::new();
            for (parent, node) in &above {
                for expected in &node.expected {
                    if self.leaf(expected).is_none() {
                        missing.entry(expected.clone()).or_default().insert(parent.clone());
                    }
                }
            }
            for (policy, parents) in missing {
                self.insert(&policy, vec![policy.clone()], parents);
            }
        }
        self.prune();
    }

    /// Applies a certificate's mappings; None if one of them is not allowed.
    fn map(&mut self, mappings: &[(Oid, Oid)], allowed: bool) -> Option<()> {
        if mappings.is_empty() {
            return Some(());
        }
        let mut by_issuer: BTreeMap<&Oid, Vec<Oid>> = BTreeMap::new();
        for (issuer, subject) in mappings {
            if !allowed {
                if let Some(leaves) = self.strata.last_mut() {
                    leaves.remove(issuer);
                }
                continue;
            }
            if issuer == ANY_POLICY || subject == ANY_POLICY {
                return None;
            }
            by_issuer.entry(issuer).or_default().push(subject.clone());
        }
        self.prune();
        for (issuer, subjects) in by_issuer {
            if let Some(node) = self.leaf(issuer) {
                node.expected = subjects;
            } else if self.leaf(ANY_POLICY).is_some() {
                self.insert(issuer, subjects, BTreeSet::from([ANY_POLICY.to_vec()]));
            }
        }
        Some(())
    }

    /// Whether any policy is left that counts: one whose only parent is `anyPolicy`, or `anyPolicy` itself at the end.
    fn is_any_valid(&self) -> bool {
        let counts = |(policy, node): (&Oid, &PolicyNode)| {
            policy != ANY_POLICY && node.parents.len() == 1 && node.parents.contains(ANY_POLICY)
        };
        let at_the_end = self.strata.last().is_some_and(|leaves| leaves.contains_key(ANY_POLICY));
        at_the_end || self.strata.iter().flatten().any(counts)
    }
}

/// Whether a chain, the leaf first, satisfies what its certificates say about policies.
pub(crate) fn are_valid(chain: &[&Certificate]) -> bool {
    let Some(length) = chain.len().checked_sub(1).filter(|length| *length > 0) else { return true };
    let mut graph = Some(PolicyGraph::new());
    let start = i64::try_from(length).unwrap_or(i64::MAX) + 1;
    let (mut inhibit_any, mut explicit, mut mapping) = (start, start, start);
    for at in (0..length).rev() {
        let Some(certificate) = chain.get(at) else { return false };
        let said = &certificate.extensions.policies;
        let is_self_issued = certificate.raw_issuer == certificate.raw_subject;
        if said.policies.is_empty() {
            graph = None;
        }
        if explicit == 0 && graph.is_none() {
            return false;
        }
        if let Some(graph) = &mut graph {
            let has_any = said.policies.iter().any(|policy| policy == ANY_POLICY);
            graph.descend(&said.policies, has_any && (inhibit_any > 0 || (at > 0 && is_self_issued)));
            if at > 0 && graph.map(&said.mappings, mapping > 0).is_none() {
                return false;
            }
        }
        if at > 0 {
            for (counter, limit) in [
                (&mut explicit, said.require_explicit),
                (&mut mapping, said.inhibit_mapping),
                (&mut inhibit_any, said.inhibit_any),
            ] {
                if !is_self_issued && *counter > 0 {
                    *counter -= 1;
                }
                // A negative number counts as none, as in Go.
                if let Some(limit) = limit.filter(|limit| *limit >= 0 && *limit < *counter) {
                    *counter = limit;
                }
            }
        }
    }
    let ends_explicit = chain.first().is_some_and(|leaf| leaf.extensions.policies.require_explicit == Some(0));
    let needs_policy = explicit <= 1 || ends_explicit;
    !needs_policy || graph.is_some_and(|graph| graph.is_any_valid())
}

//! [`PolicyFinding`]: for people who try out an object, the decision of each validation of each policy that saw it.

use object::Str;
use parking_lot::Mutex;

/// More findings of a request are left out, and longer messages are cut.
const FINDINGS_MAX: usize = 60;
const MESSAGE_BYTES_MAX: usize = 200;

/// The decision of one validation of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFinding {
    pub policy: Str,
    pub binding: Str,
    /// Its place among the policy's validations.
    pub validation: usize,
    pub outcome: PolicyOutcome,
    /// "" if it holds.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    Holds,
    Fails,
    /// It could not be evaluated, which `failurePolicy: Ignore` lets through.
    Ignored,
}

impl PolicyOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyOutcome::Holds => "holds",
            PolicyOutcome::Fails => "fails",
            PolicyOutcome::Ignored => "ignored",
        }
    }
}

/// The findings of one request.
#[derive(Debug, Default)]
pub(crate) struct PolicyFindings(Mutex<Vec<PolicyFinding>>);

impl PolicyFindings {
    pub(crate) fn add(&self, mut finding: PolicyFinding) {
        let end = finding.message.floor_char_boundary(MESSAGE_BYTES_MAX);
        finding.message.truncate(end);
        let mut all = self.0.lock();
        if all.len() < FINDINGS_MAX {
            all.push(finding);
        }
    }

    pub(crate) fn take(&self) -> Vec<PolicyFinding> {
        std::mem::take(&mut *self.0.lock())
    }
}

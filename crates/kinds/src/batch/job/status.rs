//! The status of a job. Jobs may be run by controllers that are not ours, so it is checked closely; what an update does not
//! touch may stay wrong, as older servers stored it.

use std::collections::BTreeSet;

use object::timestamp::Time;
use object::{BadValue, Cursor, Errors, Timestamp, Value};

use super::{indexes, is_true, spec};
use crate::common::checks::IMMUTABLE;
use crate::common::internal;

/// Checks a status against what it was.
pub fn validate_update(new: &Cursor, old: &Cursor, errors: &mut Errors) {
    let change = StatusChange { new, status: new.field("status"), old };
    change.counts(errors);
    change.conditions(errors);
    change.times(errors);
    change.end(errors);
    change.finished(errors);
    change.indexes(errors);
    change.pods(errors);
    change.success(errors);
    change.nothing_is_taken_back(errors);
}

struct StatusChange<'a> {
    new: &'a Cursor<'a>,
    status: Cursor<'a>,
    old: &'a Cursor<'a>,
}

impl StatusChange<'_> {
    /// Whether a field of the status is not what it was.
    fn of(&self, field: &str) -> bool {
        self.status.field(field).value() != self.old.at(&["status", field]).value()
    }

    fn is(&self, condition: &str) -> bool {
        is_true(self.new.value(), condition)
    }

    fn was(&self, condition: &str) -> bool {
        is_true(self.old.value(), condition)
    }

    fn turned(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn finishes(&self) -> bool {
        self.is_finished() != (self.was("Complete") || self.was("Failed"))
    }

    fn refuse_conditions(&self, errors: &mut Errors, detail: impl Into<String>) {
        errors.invalid(self.status.field("conditions").path(), BadValue::Omitted, detail);
    }

    fn counts(&self, errors: &mut Errors) {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            self.status.field(field).non_negative(errors);
        }
        let uncounted = self.status.field("uncountedTerminatedPods");
        let mut seen = BTreeSet::new();
        for pod in uncounted.field("succeeded").each().chain(uncounted.field("failed").each()) {
            if pod.is_empty() {
                pod.invalid(errors, "must not be empty");
            } else if !seen.insert(pod.str()) {
                pod.duplicate(errors);
            }
        }
    }

    fn conditions(&self, errors: &mut Errors) {
        let complete = self.is("Complete");
        if (self.turned("Complete") || self.turned("Failed")) && complete && self.is("Failed") {
            self.refuse_conditions(errors, "cannot set Complete=True and Failed=true conditions");
        }
        if (self.turned("Complete") || self.turned("FailureTarget")) && complete && self.is("FailureTarget") {
            self.refuse_conditions(errors, "cannot set Complete=True and FailureTarget=true conditions");
        }
    }

    fn times(&self, errors: &mut Errors) {
        let (complete, completion) = (self.is("Complete"), self.status.field("completionTime"));
        if self.turned("Complete") || self.of("completionTime") {
            if completion.is_set() && !complete {
                completion.invalid(errors, "cannot set completionTime when there is no Complete=True condition");
            }
            if !completion.is_set() && complete {
                completion.required(errors, "completionTime is required for Complete jobs");
            }
        }
        let time = |field: &str| Time::parse(self.status.field(field).str()).ok().map(|Time(time)| time);
        let ends_early: Option<(Timestamp, Timestamp)> = time("startTime").zip(time("completionTime"));
        if (self.of("startTime") || self.of("completionTime")) && ends_early.is_some_and(|(start, end)| end < start) {
            completion.invalid(errors, "must be equal to or after `startTime`");
        }
    }

    /// Conditions come in two steps: that the job will end, and that it has.
    fn end(&self, errors: &mut Errors) {
        if (self.turned("Failed") || self.of("failedIndexes")) && self.is("Failed") && !self.is("FailureTarget") {
            let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
            self.refuse_conditions(errors, detail);
        }
        let turned = self.turned("Complete") || self.turned("SuccessCriteriaMet");
        if turned && self.is("Complete") && !self.is("SuccessCriteriaMet") {
            let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            self.refuse_conditions(errors, detail);
        }
    }

    fn finished(&self, errors: &mut Errors) {
        if !self.is_finished() {
            return;
        }
        let (active, start) = (self.status.field("active"), self.status.field("startTime"));
        if (self.finishes() || self.of("active")) && active.int() > 0 {
            active.invalid(errors, "active>0 is invalid for finished job");
        }
        let spec = self.new.field("spec");
        let never_ran = spec.field("suspend").bool() && spec.field("completions").opt_int() == Some(0);
        if (self.finishes() || self.of("startTime")) && !never_ran && !start.is_set() {
            start.required(errors, "startTime is required for finished job");
        }
        let uncounted = self.status.field("uncountedTerminatedPods");
        let some = uncounted.field("failed").len() + uncounted.field("succeeded").len() > 0;
        let same = internal::same(
            "*UncountedTerminatedPods",
            uncounted.value(),
            self.old.at(&["status", "uncountedTerminatedPods"]).value(),
        );
        if (self.finishes() || !same) && some {
            let shown = internal::shown("UncountedTerminatedPods", uncounted.value());
            uncounted.invalid_as(errors, shown, "must be empty for finished job");
        }
    }

    fn indexes(&self, errors: &mut Errors) {
        let spec = self.new.field("spec");
        let (completed, failed) = (self.status.field("completedIndexes"), self.status.field("failedIndexes"));
        let (completed_changed, failed_changed) = (self.of("completedIndexes"), self.of("failedIndexes"));
        let completions = spec.field("completions").opt_int();
        let per_index = spec.field("backoffLimitPerIndex").is_set();
        let check = |list: &Cursor, name: &str, errors: &mut Errors| {
            if let Some(Err(why)) = completions.map(|completions| indexes::count(list.str(), completions)) {
                list.invalid_as(errors, list.str(), format!("error parsing {name}: {why}"));
            }
        };
        if completed_changed {
            check(&completed, "completedIndexes", errors);
        }
        if failed_changed && per_index && failed.is_set() {
            check(&failed, "failedIndexes", errors);
        }
        if completed_changed && !completed.is_empty() && !spec::is_indexed(spec.value()) {
            completed.invalid(errors, "cannot set non-empty completedIndexes when non-indexed completion mode");
        }
        if failed_changed && failed.is_set() && !per_index {
            failed.invalid(errors, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
        }
        if (completed_changed || failed_changed)
            && let Some(at) = completions.and_then(|c| indexes::overlap(completed.str(), failed.str(), c))
        {
            failed.invalid(errors, format!("failedIndexes and completedIndexes overlap at index: {at}"));
        }
    }

    fn pods(&self, errors: &mut Errors) {
        let (terminating, ready) = (self.status.field("terminating"), self.status.field("ready"));
        if (self.finishes() || self.of("terminating")) && terminating.int() > 0 && self.is_finished() {
            terminating.invalid(errors, "terminating>0 is invalid for finished job");
        }
        if (self.of("ready") || self.of("active"))
            && ready.opt_int().is_some_and(|ready| ready > self.status.field("active").int())
        {
            ready.invalid(errors, "cannot set more ready pods than active");
        }
    }

    fn success(&self, errors: &mut Errors) {
        let met = self.is("SuccessCriteriaMet");
        if met && self.is("Failed") {
            self.refuse_conditions(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
        }
        if met && self.is("FailureTarget") {
            self.refuse_conditions(errors, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
        }
        if self.new.at(&["spec", "successPolicy"]).is_set() && !met && self.is("Complete") {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            self.refuse_conditions(errors, detail);
        }
    }

    fn nothing_is_taken_back(&self, errors: &mut Errors) {
        for condition in ["Failed", "Complete", "FailureTarget"] {
            if self.was(condition) && !self.is(condition) {
                self.refuse_conditions(errors, format!("cannot disable the terminal {condition}=True condition"));
            }
        }
        let spec = self.new.field("spec");
        // The completions of an indexed job can go down, and what succeeded with them.
        let elastic =
            spec::is_indexed(spec.value()) && spec.field("completions").value() == spec.field("parallelism").value();
        for (counter, checked) in [("failed", true), ("succeeded", !elastic)] {
            let (now, before) = (self.status.field(counter), self.old.at(&["status", counter]));
            if checked && now.int() < before.int() {
                now.invalid_as(errors, now.int(), format!("cannot decrease the {counter} counter"));
            }
        }
        let completion = self.status.field("completionTime");
        let was_set = self.old.at(&["status", "completionTime"]).is_set();
        if completion.is_set() && was_set && self.of("completionTime") {
            completion.invalid(errors, IMMUTABLE);
        }
        let resumes = self.was("Suspended") && is_false(self.new.value(), "Suspended");
        let started = self.old.at(&["status", "startTime"]).is_set();
        if self.of("startTime") && !resumes && started && !spec.field("suspend").bool() {
            self.status.field("startTime").invalid(errors, "field is immutable for unsuspended job once set");
        }
        let (was_met, is_met) = (self.was("SuccessCriteriaMet"), self.is("SuccessCriteriaMet"));
        if was_met && !is_met {
            self.refuse_conditions(errors, "cannot disable the SuccessCriteriaMet=True condition");
        }
        if self.was("Complete") && !was_met && is_met {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            self.refuse_conditions(errors, detail);
        }
    }
}

fn is_false(job: &Value, condition: &str) -> bool {
    let conditions = job.list_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == condition && c.str_at(&["status"]) == "False")
}

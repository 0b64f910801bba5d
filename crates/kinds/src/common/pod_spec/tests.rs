//! Pod specs as a real server answers them, played through PodTemplates.

use object::GroupVersionKind;

use crate::common::recorded::{Case, Kind, cases};
use crate::core::podtemplate::PodTemplate;

const CASES: &str = include_str!("../../../data/cases/pod-spec.txt");

#[test]
fn specs_are_answered_as_recorded() {
    let templates = Kind {
        strategy: PodTemplate,
        kind: GroupVersionKind::new("", "v1", "PodTemplate"),
        base: "{metadata: {name: p}, template: {spec: {containers: [{name: c, image: i}]}}}",
        convert: None,
    };
    let mut played = 0;
    for case in cases(CASES) {
        let change = format!("template: {{spec: {{{}}}}}", case.new);
        let errors = templates.play(&Case { subresource: "", old: None, new: &change, errors: Vec::new() });
        let got: Vec<String> = errors
            .iter()
            .map(|error| error.replacen("template.spec.", "", 1).replacen("template.spec:", "spec:", 1))
            .collect();
        assert_eq!(got, case.errors, "{}", case.new);
        played += 1;
    }
    assert!(played > 100, "the file has lost its cases");
}

use super::*;
use crate::check::yaml;

fn stored(text: &str) -> Value {
    Autoscaling.to_storage(yaml(text)).unwrap()
}

fn shown(text: &str) -> Value {
    Autoscaling.from_storage(yaml(text)).unwrap()
}

#[test]
fn a_target_for_cpu_is_a_metric() {
    let target = "scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 3, minReplicas: 1";
    let v1 = format!(
        "{{apiVersion: autoscaling/v1, metadata: {{name: a}}, spec: {{{target}, targetCPUUtilizationPercentage: 50}}}}"
    );
    let v2 = yaml(&format!(
        "{{apiVersion: autoscaling/v2, metadata: {{name: a}}, spec: {{{target}, metrics: [{{type: Resource, resource: {{name: cpu, \
         target: {{type: Utilization, averageUtilization: 50}}}}}}]}}}}"
    ));
    assert_eq!(stored(&v1), v2);
    assert_eq!(Autoscaling.from_storage(v2), Ok(yaml(&v1)));
}

#[test]
fn without_any_metric_cpu_is_kept_at_80() {
    let object = stored("{spec: {maxReplicas: 1}}");
    assert_eq!(object.list_at(&["spec", "metrics"]), [cpu_utilization(80)]);
}

#[test]
fn what_v1_cannot_say_stands_in_annotations() {
    let v1 = shown(
        "
        metadata: {annotations: {a: b, autoscaling.alpha.kubernetes.io/metrics: stale}}
        spec:
          behavior: {scaleDown: {stabilizationWindowSeconds: 5, selectPolicy: Max, policies: [{type: Pods, value: 1, periodSeconds: 2}]}}
          metrics:
          - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
          - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}
          - {type: Pods, pods: {metric: {name: hits, selector: {matchLabels: {a: <b>}}}, target: {type: AverageValue, averageValue: 10k}}}
          - {type: Object, object: {describedObject: {kind: Ingress, name: i}, metric: {name: m}, target: {type: Value, value: '5'}}}
          - {type: External, external: {metric: {name: q}, target: {type: AverageValue, averageValue: '3'}}}
          - {type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: Utilization, averageUtilization: 7}}}
        status:
          currentReplicas: 1
          currentMetrics:
          - {type: Resource, resource: {name: cpu, current: {averageUtilization: 0, averageValue: 1m}}}
          conditions: [{type: AbleToScale, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: R}]
        ",
    );
    assert_eq!(v1.at(&["spec", "targetCPUUtilizationPercentage"]), &Value::from(50));
    assert_eq!(v1.at(&["status", "currentCPUUtilizationPercentage"]), &Value::from(0));
    let annotations = [
        ("a", "b"),
        (
            METRICS,
            concat!(
                r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},"#,
                r#"{"type":"Pods","pods":{"metricName":"hits","targetAverageValue":"10k","selector":{"matchLabels":{"a":"\u003cb\u003e"}}}},"#,
                r#"{"type":"Object","object":{"target":{"kind":"Ingress","name":"i"},"metricName":"m","targetValue":"5"}},"#,
                r#"{"type":"External","external":{"metricName":"q","targetAverageValue":"3"}},"#,
                r#"{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":7,"container":"c"}}]"#
            ),
        ),
        (
            CURRENT_METRICS,
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":0,"currentAverageValue":"1m"}}]"#,
        ),
        (
            CONDITIONS,
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R"}]"#,
        ),
        (
            BEHAVIOR,
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":5,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":2}],"Tolerance":null}}"#,
        ),
    ];
    for (key, want) in annotations {
        assert_eq!(v1.annotation(key), Some(want));
    }
    assert_eq!(v1.at(&["metadata", "annotations"]).as_map().map(Map::len), Some(annotations.len()));
}

#[test]
fn objects_survive_the_way_there_and_back() {
    let v2 = "
        apiVersion: autoscaling/v2
        metadata: {name: a, annotations: {a: b}}
        spec:
          scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}
          maxReplicas: 3
          behavior: {scaleUp: {selectPolicy: Disabled, policies: [{type: Pods, value: 1, periodSeconds: 2}], tolerance: 10m}}
          metrics:
          - {type: Pods, pods: {metric: {name: hits, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: 10k}}}
          - {type: Object, object: {describedObject: {kind: Ingress, name: i}, metric: {name: m}, target: {type: AverageValue, averageValue: '5'}}}
          - {type: External, external: {metric: {name: q}, target: {type: Value, value: '3'}}}
          - {type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: AverageValue, averageValue: 100m}}}
        status:
          currentReplicas: 1
          desiredReplicas: 2
          currentMetrics:
          - {type: Object, object: {describedObject: {kind: Ingress, name: i}, metric: {name: m}, current: {value: '0', averageValue: '5'}}}
          - {type: Pods, pods: {metric: {name: hits}, current: {averageValue: '5'}}}
          - {type: External, external: {metric: {name: q}, current: {value: '3'}}}
          conditions: [{type: AbleToScale, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}]
        ";
    let back = Autoscaling.to_storage(shown(v2)).unwrap();
    assert_eq!(back, yaml(v2));
}

#[test]
fn annotations_that_make_no_sense_are_dropped() {
    for (key, text) in
        [(METRICS, "{"), (METRICS, "[{\"type\": 5}]"), (BEHAVIOR, "[]"), (BEHAVIOR, "{}"), (CONDITIONS, "5")]
    {
        let mut object = yaml("{spec: {maxReplicas: 1, targetCPUUtilizationPercentage: 50}}");
        object.set_annotation(key, text);
        let object = Autoscaling.to_storage(object).unwrap();
        assert_eq!(object.list_at(&["spec", "metrics"]), [cpu_utilization(50)], "{text}");
        assert_eq!(object.at(&["spec", "behavior"]), &Value::Null, "{text}");
        assert_eq!(object.annotation(key), None);
    }
    let odd = "{metadata: {annotations: {autoscaling.alpha.kubernetes.io/behavior: '{\"scaleup\": {\"POLICIES\": [{\"type\": \"Pods\"}]}}'}}}";
    assert_eq!(stored(odd).at(&["spec", "behavior"]), &yaml("{scaleUp: {policies: [{type: Pods}]}}"));
}

package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pod is a pod in a phase that started three seconds ago, with changes.
func pod(phase corev1.PodPhase, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "main"}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
	if phase != corev1.PodPending {
		p.Status = *started(p, now.Add(-3*time.Second), "198.18.0.0", "100.64.0.1")
		p.Status.Phase = phase
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func never(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }

func ofJob(p *corev1.Pod) {
	never(p)
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Controller: ptr.To(true)}}
}

func unready(p *corev1.Pod) { podCondition(&p.Status, corev1.PodReady).Status = corev1.ConditionFalse }

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(29*time.Second))), ptr.To[int64](30)
}

func TestAdvance(t *testing.T) {
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		phase  corev1.PodPhase // of the new status; empty for none
		remove bool
		again  time.Duration
	}{
		"a bound pod starts":                  {pod: pod(corev1.PodPending), phase: corev1.PodRunning},
		"a server keeps running":              {pod: pod(corev1.PodRunning)},
		"a bare pod that may finish stays":    {pod: pod(corev1.PodRunning, never)},
		"a job's pod finishes":                {pod: pod(corev1.PodRunning, ofJob), phase: corev1.PodSucceeded},
		"a job's pod fails when told":         {pod: pod(corev1.PodRunning, ofJob, annotated(exitCodeAnnotation, "3")), phase: corev1.PodFailed},
		"a job's pod runs as long as it says": {pod: pod(corev1.PodRunning, ofJob, annotated(runForAnnotation, "5s")), again: 2 * time.Second},
		"a bare pod that says so finishes":    {pod: pod(corev1.PodRunning, never, annotated(runForAnnotation, "2s")), phase: corev1.PodSucceeded},
		"a finished pod is left alone":        {pod: pod(corev1.PodSucceeded, ofJob)},
		"a pod marked not ready is ready":     {pod: pod(corev1.PodRunning, unready), phase: corev1.PodRunning},
		"a deleted pod goes at once":          {pod: pod(corev1.PodRunning, deleted), remove: true},
		"a deleted pod that never started":    {pod: pod(corev1.PodPending, deleted), remove: true},
		"a deleted pod may take its time":     {pod: pod(corev1.PodRunning, deleted, annotated(stopAfterAnnotation, "4s")), again: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := advance(c.pod, now, time.Second, "198.18.0.0", func() string { return "100.64.0.9" })
			var phase corev1.PodPhase
			if got.status != nil {
				phase = got.status.Phase
			}
			if phase != c.phase || got.remove != c.remove || got.again != c.again {
				t.Errorf("phase %q, remove %v, again %v; want %q, %v, %v", phase, got.remove, got.again, c.phase, c.remove, c.again)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	ready := func(status *corev1.PodStatus) corev1.ConditionStatus {
		return podCondition(status, corev1.PodReady).Status
	}
	gated := pod(corev1.PodPending, func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.test/gate"}}
	})
	if got := ready(started(gated, now, "", "")); got != corev1.ConditionFalse {
		t.Errorf("a pod with an open readiness gate has Ready %s", got)
	}
	running := pod(corev1.PodRunning)
	if got := ready(&running.Status); got != corev1.ConditionTrue {
		t.Errorf("a running pod has Ready %s", got)
	}
	ended := finished(running, now)
	if got := ready(ended); got != corev1.ConditionFalse {
		t.Errorf("a finished pod has Ready %s", got)
	}
	if at := podCondition(ended, corev1.PodInitialized).LastTransitionTime; !at.Time.Equal(now.Add(-3 * time.Second)) {
		t.Errorf("a condition that did not change has a new transition time %s", at)
	}
	if code := ended.ContainerStatuses[0].State.Terminated.ExitCode; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

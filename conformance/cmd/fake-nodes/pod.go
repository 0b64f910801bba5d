package main

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// step is what a kubelet does next for a pod: at most one of a new status and removing it.
type step struct {
	status *corev1.PodStatus
	remove bool
	again  time.Duration
}

// advance decides the next step from nothing but the pod and the time.
func advance(pod *corev1.Pod, now time.Time, runFor time.Duration, hostIP string, podIP func() string) step {
	if pod.DeletionTimestamp != nil {
		return terminate(pod, now)
	}
	switch pod.Status.Phase {
	case corev1.PodPending:
		return step{status: started(pod, now, hostIP, podIP())}
	case corev1.PodRunning:
		next := finish(pod, now, runFor)
		if next.status == nil {
			next.status = refreshed(pod, now)
		}
		return next
	}
	return step{} // finished, or unknown: left alone
}

// terminate lets a pod take its time, counted from when its deletion was asked for.
func terminate(pod *corev1.Pod, now time.Time) step {
	asked := pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	if left := asked.Add(duration(pod, stopAfterAnnotation, 0)).Sub(now); left > 0 {
		return step{again: left}
	}
	return step{remove: true}
}

// finish ends a pod that is allowed to: one that belongs to a Job, or that says itself how long it runs.
func finish(pod *corev1.Pod, now time.Time, runFor time.Duration) step {
	_, says := pod.Annotations[runForAnnotation]
	owner := metav1.GetControllerOf(pod)
	ofJob := owner != nil && owner.Kind == "Job"
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || !says && !ofJob || pod.Status.StartTime == nil {
		return step{}
	}
	if left := pod.Status.StartTime.Add(duration(pod, runForAnnotation, runFor)).Sub(now); left > 0 {
		return step{again: left}
	}
	return step{status: finished(pod, now)}
}

// started is the status of a pod all of whose containers have come up.
func started(pod *corev1.Pod, now time.Time, hostIP, podIP string) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	status.Phase = corev1.PodRunning
	status.ObservedGeneration = pod.Generation
	status.HostIP, status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	if pod.Spec.HostNetwork {
		podIP = hostIP
	}
	status.PodIP, status.PodIPs = podIP, []corev1.PodIP{{IP: podIP}}
	status.StartTime = ptr.To(metav1.NewTime(now))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	status.InitContainerStatuses = nil
	for _, container := range pod.Spec.InitContainers {
		state := terminated(pod, now, 0)
		if ptr.Deref(container.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			state = running // a sidecar
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(pod, container, state, true))
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(pod, container, running, true))
	}
	setConditions(pod, status, now, true, "")
	return status
}

// refreshed is the status of a running pod that became ready or unready, else nil: a readiness gate moved, or the
// pods of a node that had been silent were marked not ready.
func refreshed(pod *corev1.Pod, now time.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	setConditions(pod, status, now, true, "")
	have, want := podCondition(&pod.Status, corev1.PodReady), podCondition(status, corev1.PodReady)
	if have != nil && have.Status == want.Status {
		return nil
	}
	return status
}

// finished is the status of a pod whose containers have all ended.
func finished(pod *corev1.Pod, now time.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	code, _ := strconv.Atoi(pod.Annotations[exitCodeAnnotation])
	status.Phase = corev1.PodSucceeded
	reason := "PodCompleted"
	if code != 0 {
		status.Phase, reason = corev1.PodFailed, "PodFailed"
	}
	for index := range status.InitContainerStatuses {
		if container := &status.InitContainerStatuses[index]; container.State.Running != nil {
			*container = stopped(*container, terminated(pod, now, 0))
		}
	}
	for index := range status.ContainerStatuses {
		status.ContainerStatuses[index] = stopped(status.ContainerStatuses[index], terminated(pod, now, int32(code)))
	}
	setConditions(pod, status, now, false, reason)
	return status
}

func containerStatus(pod *corev1.Pod, container corev1.Container, state corev1.ContainerState, ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: container.Name, Image: container.Image, ImageID: "fake://" + container.Image,
		ContainerID: "fake://" + string(pod.UID) + "/" + container.Name,
		Ready:       ready, Started: ptr.To(state.Running != nil), State: state,
	}
}

func stopped(status corev1.ContainerStatus, state corev1.ContainerState) corev1.ContainerStatus {
	status.State, status.Ready, status.Started = state, false, ptr.To(false)
	return status
}

func terminated(pod *corev1.Pod, now time.Time, code int32) corev1.ContainerState {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	start := metav1.NewTime(now)
	if pod.Status.StartTime != nil {
		start = *pod.Status.StartTime
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: start, FinishedAt: metav1.NewTime(now),
	}}
}

// setConditions sets those a kubelet owns. A pod with readiness gates is ready only when each of them is true.
func setConditions(pod *corev1.Pod, status *corev1.PodStatus, now time.Time, running bool, reason string) {
	up := corev1.ConditionFalse
	if running {
		up = corev1.ConditionTrue
	}
	ready, readyReason := up, reason
	for _, gate := range pod.Spec.ReadinessGates {
		if have := podCondition(status, gate.ConditionType); running && (have == nil || have.Status != corev1.ConditionTrue) {
			ready, readyReason = corev1.ConditionFalse, "ReadinessGatesNotReady"
		}
	}
	for _, want := range []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: up},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: up, Reason: reason},
		{Type: corev1.PodReady, Status: ready, Reason: readyReason},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	} {
		want.LastTransitionTime, want.ObservedGeneration = metav1.NewTime(now), pod.Generation
		have := podCondition(status, want.Type)
		if have == nil {
			status.Conditions = append(status.Conditions, want)
			continue
		}
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
		*have = want
	}
}

func podCondition(status *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	for index := range status.Conditions {
		if status.Conditions[index].Type == kind {
			return &status.Conditions[index]
		}
	}
	return nil
}

func duration(pod *corev1.Pod, annotation string, otherwise time.Duration) time.Duration {
	if parsed, err := time.ParseDuration(pod.Annotations[annotation]); err == nil {
		return parsed
	}
	return otherwise
}

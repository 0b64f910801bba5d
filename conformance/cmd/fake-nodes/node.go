package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// As kubelets have them: a lease of 40 s renewed every 10 s, and a status whenever it changed or 5 minutes have passed.
const (
	heartbeatInterval = 10 * time.Second
	statusInterval    = 5 * time.Minute
	leaseSeconds      = 40
)

// node is one machine that does not exist.
type node struct {
	name     string
	address  string
	podCIDR  netip.Prefix
	client   kubernetes.Interface
	capacity corev1.ResourceList
	nextPod  atomic.Uint32
	lease    *coordinationv1.Lease
	reported time.Time
}

func newNode(name string, index int, client kubernetes.Interface, o options) *node {
	return &node{
		name:    name,
		address: netip.AddrFrom4([4]byte{198, 18, byte(index >> 8), byte(index)}).String(), // reserved for benchmarks, never routed
		podCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{100, byte(64 + index>>8), byte(index), 0}), 24),
		client:  client,
		capacity: corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("64"),
			corev1.ResourceMemory:           resource.MustParse("256Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			corev1.ResourcePods:             *resource.NewQuantity(int64(o.podsPerNode), resource.DecimalSI),
		},
	}
}

// podAddress hands out the node's addresses in turn: unlike a real network it does not mind when one comes round again.
func (n *node) podAddress() string {
	base := n.podCIDR.Addr().As4()
	base[3] = byte(1 + (n.nextPod.Add(1)-1)%254)
	return netip.AddrFrom4(base).String()
}

// register creates the node, or takes over the one that is there.
func (n *node) register(ctx context.Context) error {
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
			corev1.LabelHostname: n.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity:    n.capacity,
			Allocatable: n.capacity,
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.address}, {Type: corev1.NodeHostName, Address: n.name}},
			NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: "v1.37.0-fake", OperatingSystem: "linux", Architecture: "amd64", ContainerRuntimeVersion: "fake://1"},
			Conditions:  conditions(nil, time.Now()),
		},
	}
	_, err := n.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return err
}

// heartbeat renews the lease and the status until the context ends; a node that was deleted stays deleted.
func (n *node) heartbeat(ctx context.Context, object func(string) *corev1.Node) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		if current := object(n.name); current != nil && current.Annotations[silentAnnotation] != "true" {
			if err := n.renewLease(ctx, current); err != nil && ctx.Err() == nil {
				n.lease = nil
				complain("renewing the lease of "+n.name, err)
			}
			if err := n.reportStatus(ctx, current); err != nil && ctx.Err() == nil {
				complain("reporting the status of "+n.name, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *node) renewLease(ctx context.Context, owner *corev1.Node) (err error) {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if n.lease == nil {
		n.lease, err = leases.Get(ctx, n.name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if apierrors.IsNotFound(err) {
			n.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.name, Namespace: corev1.NamespaceNodeLease}}
		}
	}
	lease := n.lease.DeepCopy()
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: owner.Name, UID: owner.UID}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &n.name, ptr.To[int32](leaseSeconds)
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	if lease.UID == "" {
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		n.lease = lease
	}
	return err
}

// reportStatus patches the status when the server has another one (a controller found the node unreachable, or it has
// been registered by somebody else), or when it is due.
func (n *node) reportStatus(ctx context.Context, current *corev1.Node) error {
	now := time.Now()
	healthy := true
	for _, want := range conditions(nil, now) {
		have := condition(current.Status.Conditions, want.Type)
		healthy = healthy && have != nil && have.Status == want.Status
	}
	if healthy && now.Sub(n.reported) < statusInterval {
		return nil
	}
	updated := current.DeepCopy()
	updated.Status.Capacity, updated.Status.Allocatable = n.capacity, n.capacity
	updated.Status.Conditions = conditions(current.Status.Conditions, now)
	patch, err := twoWayPatch(current, updated, corev1.Node{})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil {
		n.reported = now
	}
	return err
}

// conditions are those of a healthy node; a condition keeps its transition time while its status stays.
func conditions(before []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	healthy := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	}
	for index := range healthy {
		want := &healthy[index]
		want.LastHeartbeatTime, want.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
		if have := condition(before, want.Type); have != nil && have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
	}
	return healthy
}

func condition(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for index := range conditions {
		if conditions[index].Type == kind {
			return &conditions[index]
		}
	}
	return nil
}

// patchPodStatus sends a strategic merge patch bound to the pod's UID, as kubelets do.
func (n *node) patchPodStatus(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error {
	before := &corev1.Pod{Status: pod.Status}
	after := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *status}
	patch, err := twoWayPatch(before, after, corev1.Pod{})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// removePod confirms that the pod has terminated.
func (n *node) removePod(ctx context.Context, pod *corev1.Pod) error {
	return n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
}

func twoWayPatch(before, after, kind any) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	updated, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, updated, kind)
	if err != nil {
		return nil, fmt.Errorf("making a patch: %w", err)
	}
	return patch, nil
}

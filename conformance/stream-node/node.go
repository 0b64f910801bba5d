package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// node registers itself and starts what is scheduled to it.
type node struct {
	client *kubernetes.Clientset
	name   string
	podIP  string
	// Since when it says that resources are used.
	started time.Time

	lock sync.Mutex
	// By namespace/pod/container.
	containers map[string]*container
}

func (n *node) register(ctx context.Context, address string, port int32, websockets bool) error {
	nodes := n.client.CoreV1().Nodes()
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	if _, err := nodes.Create(ctx, object, metav1.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
		return err
	}
	object, err := nodes.Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi")}
	object.Status.Allocatable = object.Status.Capacity
	object.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
	object.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	object.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	if websockets {
		object.Status.DeclaredFeatures = []string{"ExtendWebSocketsToKubelet"}
	}
	_, err = nodes.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}

// follow starts the containers of pods that are on this node, those that are added later too.
func (n *node) follow(ctx context.Context) error {
	options := metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name}
	watch, err := n.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
	if err != nil {
		return err
	}
	for event := range watch.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok {
			continue
		}
		if event.Type == "DELETED" {
			n.forget(pod)
			continue
		}
		if n.start(pod) {
			if err := n.publish(ctx, pod); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the watch of pods ended")
}

// start runs the containers that do not run yet and tells whether there were any.
func (n *node) start(pod *v1.Pod) bool {
	started := false
	run := func(name string, command []string, tty bool) {
		n.lock.Lock()
		defer n.lock.Unlock()
		key := pod.Namespace + "/" + pod.Name + "/" + name
		if n.containers[key] == nil {
			n.containers[key] = startContainer(command, tty)
			started = true
		}
	}
	for _, c := range pod.Spec.Containers {
		run(c.Name, append(c.Command, c.Args...), c.TTY)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		run(c.Name, append(c.Command, c.Args...), c.TTY)
	}
	return started
}

// forget ends the containers of a pod that was deleted.
func (n *node) forget(pod *v1.Pod) {
	n.lock.Lock()
	defer n.lock.Unlock()
	for key, container := range n.containers {
		if strings.HasPrefix(key, pod.Namespace+"/"+pod.Name+"/") {
			if container.stdin != nil {
				container.stdin.Close()
			}
			delete(n.containers, key)
		}
	}
}

func (n *node) publish(ctx context.Context, pod *v1.Pod) error {
	running := func(name string) v1.ContainerStatus {
		state := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}}
		return v1.ContainerStatus{Name: name, Ready: true, Image: "none", State: state}
	}
	pods := n.client.CoreV1().Pods(pod.Namespace)
	pod, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod.Status = v1.PodStatus{
		Phase:      v1.PodRunning,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
	}
	if n.podIP != "" {
		pod.Status.PodIP, pod.Status.PodIPs = n.podIP, []v1.PodIP{{IP: n.podIP}}
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, running(c.Name))
	}
	for _, c := range pod.Spec.EphemeralContainers {
		pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, running(c.Name))
	}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if errors.IsConflict(err) {
		return n.publish(ctx, pod)
	}
	return err
}

func (n *node) find(namespace, pod, name string) *container {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.containers[namespace+"/"+pod+"/"+name]
}

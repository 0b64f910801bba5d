package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// fleet is all fake nodes: one watch of bound pods and one of nodes serve them together.
type fleet struct {
	options options
	nodes   map[string]*node
	pods    cache.SharedIndexInformer
	objects cache.SharedIndexInformer
	queue   workqueue.TypedRateLimitingInterface[string]
}

func newFleet(client kubernetes.Interface, o options) *fleet {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	podFactory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = bound }))
	return &fleet{
		options: o,
		nodes:   map[string]*node{},
		pods:    podFactory.Core().V1().Pods().Informer(),
		objects: informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer(),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
}

func (f *fleet) add(node *node) { f.nodes[node.name] = node }

// run registers the nodes, then keeps them and their pods alive until the context ends.
func (f *fleet) run(ctx context.Context) error {
	for _, node := range f.nodes {
		if err := node.register(ctx); err != nil {
			return fmt.Errorf("registering %s: %w", node.name, err)
		}
	}
	if _, err := f.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.enqueue,
		UpdateFunc: func(_, pod any) { f.enqueue(pod) },
	}); err != nil {
		return err
	}
	var tasks sync.WaitGroup
	start := func(task func()) { tasks.Go(task) }
	start(func() { f.pods.Run(ctx.Done()) })
	start(func() { f.objects.Run(ctx.Done()) })
	if !cache.WaitForCacheSync(ctx.Done(), f.pods.HasSynced, f.objects.HasSynced) {
		return nil
	}
	for _, node := range f.nodes {
		start(func() { node.heartbeat(ctx, f.object) })
	}
	for range f.options.workers {
		start(func() { f.work(ctx) })
	}
	fmt.Printf("fake-nodes: %d nodes are up\n", len(f.nodes))
	<-ctx.Done()
	f.queue.ShutDown()
	tasks.Wait()
	return nil
}

// object is a node as the server last told; nil when it was deleted.
func (f *fleet) object(name string) *corev1.Node {
	object, exists, _ := f.objects.GetStore().GetByKey(name)
	if !exists {
		return nil
	}
	return object.(*corev1.Node)
}

func (f *fleet) enqueue(object any) {
	pod := object.(*corev1.Pod)
	if f.nodes[pod.Spec.NodeName] != nil {
		f.queue.Add(pod.Namespace + "/" + pod.Name)
	}
}

func (f *fleet) work(ctx context.Context) {
	for {
		key, shutdown := f.queue.Get()
		if shutdown {
			return
		}
		again, err := f.move(ctx, key)
		switch {
		case err != nil && ctx.Err() == nil:
			if !apierrors.IsConflict(err) {
				complain("moving pod "+key, err)
			}
			f.queue.AddRateLimited(key)
		case again > 0:
			f.queue.Forget(key)
			f.queue.AddAfter(key, again)
		default:
			f.queue.Forget(key)
		}
		f.queue.Done(key)
	}
}

// move takes a pod one step on its way, and says when to look at it again.
func (f *fleet) move(ctx context.Context, key string) (time.Duration, error) {
	object, exists, err := f.pods.GetStore().GetByKey(key)
	if err != nil || !exists {
		return 0, err
	}
	pod := object.(*corev1.Pod)
	node := f.nodes[pod.Spec.NodeName]
	// A silent node's pods stay as they are; they are looked at again in case it comes back.
	if registered := f.object(node.name); registered == nil || registered.Annotations[silentAnnotation] == "true" {
		return heartbeatInterval, nil
	}
	step := advance(pod, time.Now(), f.options.runFor, node.address, node.podAddress)
	switch {
	case step.remove:
		err = node.removePod(ctx, pod)
	case step.status != nil:
		err = node.patchPodStatus(ctx, pod, step.status)
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return step.again, err
}

func complain(what string, err error) {
	fmt.Fprintf(os.Stderr, "fake-nodes: %s: %s\n", what, strings.TrimSpace(err.Error()))
}

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// load makes, changes and deletes the objects that the informers follow, over a connection that is never cut.
type load struct {
	client    kubernetes.Interface
	namespace string
	objects   int
}

func newLoad(ctx context.Context, config *rest.Config, objects int) (*load, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "informer-"}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a namespace: %w", err)
	}
	return &load{client, namespace.Name, objects}, nil
}

func name(index int) string { return fmt.Sprintf("object-%04d", index) }

// createHalf creates every second object of each kind, starting with the given one.
func (l *load) createHalf(ctx context.Context, first int) error {
	for index := first; index < l.objects; index += 2 {
		meta := metav1.ObjectMeta{Name: name(index), Labels: map[string]string{"round": "none"}}
		if _, err := l.client.CoreV1().ConfigMaps(l.namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"index": fmt.Sprint(index)}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := l.client.AppsV1().Deployments(l.namespace).Create(ctx, deployment(meta), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// deployment has no replicas: with a controller-manager around, nothing but its status changes by itself.
func deployment(meta metav1.ObjectMeta) *appsv1.Deployment {
	labels := map[string]string{"app": meta.Name}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](0),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/none"}}},
		},
	}}
}

func (l *load) changeAll(ctx context.Context, round int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, round)
	for index := range l.objects {
		if _, err := l.client.CoreV1().ConfigMaps(l.namespace).Patch(ctx, name(index), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		if _, err := l.client.AppsV1().Deployments(l.namespace).Patch(ctx, name(index), types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) deleteHalf(ctx context.Context) error {
	for index := 0; index < l.objects; index += 2 {
		if err := l.client.CoreV1().ConfigMaps(l.namespace).Delete(ctx, name(index), metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := l.client.AppsV1().Deployments(l.namespace).Delete(ctx, name(index), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// list is the truth that informers are held to: key → resource version.
func (l *load) list(ctx context.Context, kind string) (map[string]uint64, error) {
	truth := map[string]uint64{}
	add := func(object metav1.Object) error {
		key, version, err := identify(object)
		truth[key] = version
		return err
	}
	switch kind {
	case "configmaps":
		list, err := l.client.CoreV1().ConfigMaps(l.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for index := range list.Items {
			if err := add(&list.Items[index]); err != nil {
				return nil, err
			}
		}
	case "deployments":
		list, err := l.client.AppsV1().Deployments(l.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for index := range list.Items {
			if err := add(&list.Items[index]); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("no list of %s", kind)
	}
	return truth, nil
}

// cleanUp empties the namespace itself too: without a controller-manager nobody else would.
func (l *load) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = l.client.CoreV1().ConfigMaps(l.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	_ = l.client.AppsV1().Deployments(l.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	_ = l.client.CoreV1().Namespaces().Delete(ctx, l.namespace, metav1.DeleteOptions{})
}

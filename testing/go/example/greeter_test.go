package greeter

import (
	"testing"

	"ferrokube.dev/envtest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

func clientOf(t *testing.T, server *envtest.Server) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestNamespacesAreDeletedAndResetsEmpty(t *testing.T) {
	server := envtest.Start(t)
	client, ctx := clientOf(t, server), t.Context()
	for range 3 {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "greetings"}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
		if _, err := client.CoreV1().ConfigMaps("greetings").Create(ctx, greeting, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		server.Reset(t)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "greetings"}}
	made, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=greetings", ResourceVersion: made.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if err := client.CoreV1().Namespaces().Delete(ctx, "greetings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range events.ResultChan() {
		if event.Type == watch.Deleted {
			return
		}
	}
	t.Fatal("the namespace was not deleted")
}

func TestUsersMayDoWhatRolesSay(t *testing.T) {
	server := envtest.Isolated(t)
	alice, err := kubernetes.NewForConfig(server.User(t, "alice", "devs"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alice.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("it should be forbidden: %v", err)
	}
}

func TestIsolatedServersAreEmpty(t *testing.T) {
	for _, name := range []string{"one", "two", "three", "four"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maps := clientOf(t, envtest.Isolated(t)).CoreV1().ConfigMaps("default")
			if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "same"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

package suite

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	finalizer = "suite.ferrokube.dev/farewell"
	nameIndex = "data.name"
)

// greeter keeps a Secret with a greeting for each ConfigMap that names somebody, and says farewell when that goes.
type greeter struct{ client.Client }

func (g *greeter) setUp(manager ctrl.Manager) error {
	g.Client = manager.GetClient()
	index := func(object client.Object) []string { return []string{object.(*corev1.ConfigMap).Data["name"]} }
	if err := manager.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, nameIndex, index); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(g)
}

func (g *greeter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := g.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Data["name"] == "" {
		return ctrl.Result{}, nil
	}
	if !source.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, g.farewell(ctx, &source)
	}
	if controllerutil.AddFinalizer(&source, finalizer) {
		return ctrl.Result{}, g.Update(ctx, &source)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, g.Client, secret, func() error {
		secret.StringData = nil
		secret.Data = map[string][]byte{"greeting": []byte("hello " + source.Data["name"])}
		return controllerutil.SetControllerReference(&source, secret, g.Scheme())
	})
	return ctrl.Result{}, err
}

// farewell leaves a note, then lets the object go. It may run again before the cache has seen that.
func (g *greeter) farewell(ctx context.Context, source *corev1.ConfigMap) error {
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: source.Name + "-farewell", Namespace: source.Namespace}}
	if err := g.Create(ctx, note); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if !controllerutil.RemoveFinalizer(source, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(g.Update(ctx, source))
}

func startGreeter(t *testing.T, namespace string) ctrl.Manager {
	t.Helper()
	options := ctrl.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}}
	manager, _ := startManager(t, options, (&greeter{}).setUp)
	return manager
}

func named(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string]string{"name": value}}
}

func greetingOf(ctx context.Context, source *corev1.ConfigMap) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, direct.Get(ctx, client.ObjectKeyFromObject(source), secret)
}

func expectGreeting(ctx context.Context, source *corev1.ConfigMap, want string) error {
	secret, err := greetingOf(ctx, source)
	if err != nil {
		return err
	}
	return expect("greeting", string(secret.Data["greeting"]), want)
}

func TestReconcile(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	startGreeter(t, namespace)
	source := named(namespace, "a", "ada")
	must(t, direct.Create(ctx, source))
	eventually(t, func() error { return expectGreeting(ctx, source, "hello ada") })

	secret, err := greetingOf(ctx, source)
	must(t, err)
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.UID != source.UID || owner.Kind != "ConfigMap" {
		t.Errorf("the secret's controller is %v", owner)
	}

	// A change of the source, a change of the child and the child's deletion are each seen and put right.
	patch := client.MergeFrom(source.DeepCopy())
	source.Data["name"] = "grace"
	must(t, direct.Patch(ctx, source, patch))
	eventually(t, func() error { return expectGreeting(ctx, source, "hello grace") })

	secret, err = greetingOf(ctx, source)
	must(t, err)
	secret.Data["greeting"] = []byte("goodbye")
	must(t, direct.Update(ctx, secret))
	eventually(t, func() error { return expectGreeting(ctx, source, "hello grace") })

	must(t, direct.Delete(ctx, secret))
	eventually(t, func() error { return expectGreeting(ctx, source, "hello grace") })
}

func TestFinalizer(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	startGreeter(t, namespace)
	source := named(namespace, "a", "ada")
	must(t, direct.Create(ctx, source))
	eventually(t, func() error { return expectGreeting(ctx, source, "hello ada") })

	must(t, direct.Delete(ctx, source))
	eventually(t, func() error {
		if err := direct.Get(ctx, client.ObjectKeyFromObject(source), source); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the deleted object is still there (%v)", err)
		}
		return nil
	})
	note := &corev1.ConfigMap{}
	must(t, direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "a-farewell"}, note))
}

func TestIndexedCache(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	cached := startGreeter(t, namespace).GetClient()
	for index := range 20 {
		must(t, direct.Create(ctx, named(namespace, fmt.Sprintf("n%d", index), []string{"ada", "grace"}[index%2])))
	}
	eventually(t, func() error {
		var list corev1.ConfigMapList
		if err := cached.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{nameIndex: "ada"}); err != nil {
			return err
		}
		return expect("objects in the index", len(list.Items), 10)
	})
}

func TestLeaderElection(t *testing.T) {
	namespace := newNamespace(t)
	elected := func(name string) (<-chan struct{}, context.CancelFunc) {
		manager, stop := startManager(t, ctrl.Options{
			LeaderElection: true, LeaderElectionID: "suite", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
		}, func(ctrl.Manager) error { return nil })
		t.Logf("started %s", name)
		return manager.Elected(), stop
	}
	first, stopFirst := elected("first")
	eventually(t, func() error { return closed(first) })
	second, _ := elected("second")
	if closed(second) == nil {
		t.Fatal("there are two leaders")
	}
	stopFirst()
	eventually(t, func() error { return closed(second) })
}

func closed(channel <-chan struct{}) error {
	select {
	case <-channel:
		return nil
	default:
		return fmt.Errorf("not elected")
	}
}

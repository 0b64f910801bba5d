// Command authorized proves that a client-go informer with the header Ferrokube-Authorized has what its user may see.
//
// The informer follows config maps of all namespaces as a user who may list in some of them, or some objects by their names. Roles,
// bindings and objects change at random; after every few changes the informer's store must become what single GETs of the same user
// give, and no event may contradict what the informer was told before. Its connections are cut now and then.
//
//	KUBECONFIG=... authorized [-changes 10000] [-seed 1]
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	user   = "alice"
	header = "Ferrokube-Authorized"
)

var (
	namespaces = []string{"authorized-a", "authorized-b", "authorized-c"}
	names      = []string{"x", "y", "z"}
)

// objects are versions by namespace/name.
type objects map[string]string

func main() {
	changes := flag.Int("changes", 10000, "how many roles and objects are changed")
	seed := flag.Uint64("seed", 1, "of the random changes")
	limit := flag.Duration("timeout", 10*time.Minute, "give up after this long")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := run(ctx, *changes, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "authorized:", err)
		os.Exit(1)
	}
	fmt.Printf("authorized: ok after %d changes\n", *changes)
}

func run(ctx context.Context, changes int, seed uint64) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	limited := rest.CopyConfig(config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: user}
	single, err := kubernetes.NewForConfig(limited)
	if err != nil {
		return err
	}
	wire := &wire{connections: map[net.Conn]struct{}{}}
	limited.Dial = wire.dial
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper { return withHeader{next} })
	alice, err := kubernetes.NewForConfig(limited)
	if err != nil {
		return err
	}
	if err := prepare(ctx, admin); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(alice, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	follower := &follower{known: objects{}}
	if _, err := informer.AddEventHandler(follower); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("not synced")
	}
	dice := rand.New(rand.NewPCG(seed, seed))
	for done := 0; done < changes; {
		for range 1 + dice.IntN(8) {
			if err := change(ctx, admin, dice, done); err != nil {
				return fmt.Errorf("change %d: %w", done, err)
			}
			done++
		}
		if dice.IntN(100) == 0 {
			wire.cut()
		}
		want, err := singleGets(ctx, single)
		if err != nil {
			return err
		}
		if err := follower.becomes(ctx, want); err != nil {
			return fmt.Errorf("after %d changes: %w", done, err)
		}
	}
	return nil
}

type withHeader struct{ next http.RoundTripper }

func (w withHeader) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set(header, "true")
	return w.next.RoundTrip(request)
}

// wire can cut all connections at once.
type wire struct {
	mu          sync.Mutex
	connections map[net.Conn]struct{}
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, network, address)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.connections[connection] = struct{}{}
	}
	return connection, err
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for connection := range w.connections {
		_ = connection.Close()
	}
	clear(w.connections)
}

// follower has what the informer's handlers were told.
type follower struct {
	mu    sync.Mutex
	known objects
	wrong error
}

func key(object any) (string, string) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	found := object.(*corev1.ConfigMap)
	return found.Namespace + "/" + found.Name, found.ResourceVersion
}

func (f *follower) tell(event string, object any, wasKnown, isKnown bool) {
	key, version := key(object)
	// There are others, which the test does not change.
	if namespace, _, _ := strings.Cut(key, "/"); !slices.Contains(namespaces, namespace) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.known[key]; known != wasKnown && f.wrong == nil {
		f.wrong = fmt.Errorf("%s of %s, known: %v", event, key, known)
	}
	delete(f.known, key)
	if isKnown {
		f.known[key] = version
	}
}

func (f *follower) OnAdd(object any, _ bool) { f.tell("add", object, false, true) }
func (f *follower) OnUpdate(_, object any)   { f.tell("update", object, true, true) }
func (f *follower) OnDelete(object any)      { f.tell("delete", object, true, false) }
func (f *follower) is(want objects) (bool, objects, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Equal(f.known, want), maps.Clone(f.known), f.wrong
}

// becomes waits until what was told is what is wanted.
func (f *follower) becomes(ctx context.Context, want objects) error {
	patience := time.After(time.Minute)
	for {
		equal, known, wrong := f.is(want)
		if wrong != nil {
			return wrong
		}
		if equal {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience:
			return fmt.Errorf("the informer has %v instead of %v", known, want)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func prepare(ctx context.Context, admin kubernetes.Interface) error {
	for _, name := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); ignore(err) != nil {
			return err
		}
	}
	for name, only := range map[string][]string{"authorized-all": nil, "authorized-some": {"x"}, "authorized-none": {"-"}} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules(only)}
		if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); ignore(err) != nil {
			return err
		}
	}
	return nil
}

func rules(only []string) []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs, ResourceNames: only}}
}

// ignore leaves out what random changes run into.
func ignore(err error) error {
	if errors.IsAlreadyExists(err) || errors.IsNotFound(err) || errors.IsConflict(err) {
		return nil
	}
	return err
}

// change changes an object, a binding or a role.
func change(ctx context.Context, admin kubernetes.Interface, dice *rand.Rand, step int) error {
	pick := func(of ...string) string { return of[dice.IntN(len(of))] }
	namespace, name := pick(namespaces...), pick(names...)
	role := pick("authorized-all", "authorized-some", "authorized-none")
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	refers := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	meta := metav1.ObjectMeta{Name: role}
	data := map[string]string{"step": fmt.Sprint(step)}
	configMaps := admin.CoreV1().ConfigMaps(namespace)
	bindings, everywhere := admin.RbacV1().RoleBindings(namespace), admin.RbacV1().ClusterRoleBindings()
	var err error
	switch dice.IntN(14) {
	case 0, 1, 2, 3, 4:
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		if _, err = configMaps.Create(ctx, object, metav1.CreateOptions{}); errors.IsAlreadyExists(err) {
			_, err = configMaps.Update(ctx, object, metav1.UpdateOptions{})
		}
	case 5, 6:
		err = configMaps.Delete(ctx, name, metav1.DeleteOptions{})
	case 7, 8, 9:
		binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: refers, Subjects: subjects}
		_, err = bindings.Create(ctx, binding, metav1.CreateOptions{})
	case 10, 11:
		err = bindings.Delete(ctx, role, metav1.DeleteOptions{})
	case 12:
		some := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "authorized-some"}, Rules: rules([]string{name})}
		_, err = admin.RbacV1().ClusterRoles().Update(ctx, some, metav1.UpdateOptions{})
	default:
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: refers, Subjects: subjects}
		if _, err = everywhere.Create(ctx, binding, metav1.CreateOptions{}); errors.IsAlreadyExists(err) {
			err = everywhere.Delete(ctx, role, metav1.DeleteOptions{})
		}
	}
	return ignore(err)
}

// singleGets is the model: what the user gets one by one.
func singleGets(ctx context.Context, alice kubernetes.Interface) (objects, error) {
	seen := objects{}
	for _, namespace := range namespaces {
		for _, name := range names {
			found, err := alice.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				seen[namespace+"/"+name] = found.ResourceVersion
			case errors.IsForbidden(err), errors.IsNotFound(err):
			default:
				return nil, err
			}
		}
	}
	return seen, nil
}

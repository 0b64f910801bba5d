package suite

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/none"}}},
			},
		},
	}
}

func TestOptimisticLock(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	fresh := named(namespace, "a", "ada")
	must(t, direct.Create(ctx, fresh))
	stale := fresh.DeepCopy()
	fresh.Data["name"] = "grace"
	must(t, direct.Update(ctx, fresh))
	stale.Data["name"] = "alan"
	if err := direct.Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("updating a stale object: %v", err)
	}
	patch := client.MergeFromWithOptions(stale.DeepCopy(), client.MergeFromWithOptimisticLock{})
	stale.Data["name"] = "barbara"
	if err := direct.Patch(ctx, stale, patch); !apierrors.IsConflict(err) {
		t.Errorf("patching a stale object: %v", err)
	}
}

func TestStatusIsApart(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	object := deployment(namespace, "a", 0)
	object.Status.ObservedGeneration = 9
	must(t, direct.Create(ctx, object))
	must(t, expect("status after create", object.Status.ObservedGeneration, 0))

	patch := client.MergeFrom(object.DeepCopy())
	object.Status.ObservedGeneration = 1
	object.Spec.Paused = true
	must(t, direct.Status().Patch(ctx, object, patch))
	must(t, direct.Get(ctx, client.ObjectKeyFromObject(object), object))
	must(t, expect("observedGeneration", object.Status.ObservedGeneration, 1))
	must(t, expect("paused after a status patch", object.Spec.Paused, false))
	must(t, expect("generation", object.Generation, 1))
}

func TestApply(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	desired := func(value string) client.Object {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "applied", "namespace": namespace},
			"data":     map[string]any{"name": value},
		}}
		return object
	}
	apply := func(value, owner string, options ...client.ApplyOption) error {
		return direct.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired(value).(*unstructured.Unstructured)), append(options, client.FieldOwner(owner))...)
	}
	must(t, apply("ada", "first"))
	if err := apply("grace", "second"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `"first"`) {
		t.Errorf("applying another's field: %v", err)
	}
	must(t, apply("grace", "second", client.ForceOwnership))
	var object corev1.ConfigMap
	must(t, direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "applied"}, &object))
	must(t, expect("value", object.Data["name"], "grace"))
	must(t, expect("managers", len(object.ManagedFields), 1)) // the first owns nothing any more
}

func TestListPages(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	for index := range 25 {
		object := named(namespace, fmt.Sprintf("n%02d", index), "x")
		object.Labels = map[string]string{"parity": []string{"even", "odd"}[index%2]}
		must(t, direct.Create(ctx, object))
	}
	var names []string
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	for done := false; !done; done = page.Continue == "" {
		must(t, direct.List(ctx, page, client.InNamespace(namespace), client.Limit(10), client.Continue(page.Continue)))
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
	}
	must(t, expect("names over all pages", len(names), 25))

	must(t, direct.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace), client.MatchingLabels{"parity": "odd"}))
	var left corev1.ConfigMapList
	must(t, direct.List(ctx, &left, client.InNamespace(namespace)))
	must(t, expect("objects left", len(left.Items), 13))
}

func TestDryRun(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	object := named(namespace, "a", "ada")
	must(t, client.NewDryRunClient(direct).Create(ctx, object))
	if object.UID == "" {
		t.Error("a dry run's answer has no uid")
	}
	if err := direct.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run left an object behind (%v)", err)
	}
}

func TestInvalid(t *testing.T) {
	object := deployment(newNamespace(t), "a", -1)
	err := direct.Create(t.Context(), object)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.replicas") {
		t.Errorf("creating an invalid object: %v", err)
	}
}

// TestUserRights needs envtest's client certificates to be believed, or impersonation on a server that was there before.
func TestUserRights(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	user, err := client.New(userConfig(t, "reader"), client.Options{Scheme: scheme.Scheme})
	must(t, err)
	if err := user.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace)); !apierrors.IsForbidden(err) {
		t.Fatalf("a user without rights: %v", err)
	}
	must(t, direct.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}},
	}))
	must(t, direct.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "suite:readers"}},
	}))
	eventually(t, func() error { return user.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace)) })
	if err := user.List(ctx, &corev1.SecretList{}, client.InNamespace("default")); !apierrors.IsForbidden(err) {
		t.Errorf("a right in one namespace counts in another: %v", err)
	}
}

func userConfig(t *testing.T, name string) *rest.Config {
	t.Helper()
	if existing {
		own := rest.CopyConfig(config)
		own.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"suite:readers"}}
		return own
	}
	user, err := environment.AddUser(envtest.User{Name: name, Groups: []string{"suite:readers"}}, nil)
	must(t, err)
	return user.Config()
}

package suite

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var gadgetKind = schema.GroupVersionKind{Group: "suite.ferrokube.dev", Version: "v1", Kind: "Gadget"}

func gadgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	one := 1.0
	props := map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Required: []string{"size"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"size":  {Type: "integer", Minimum: &one},
			"color": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"blue"`)}},
		}},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"area": {Type: "integer"}}},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets." + gadgetKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gadgetKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: gadgetKind.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

func gadget(namespace, name string, size int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	object.SetGroupVersionKind(gadgetKind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// measurer writes a gadget's area into its status.
type measurer struct{ client.Client }

func (m *measurer) setUp(manager ctrl.Manager) error {
	m.Client = manager.GetClient()
	return ctrl.NewControllerManagedBy(manager).For(gadget("", "", 0)).Complete(m)
}

func (m *measurer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := gadget("", "", 0)
	if err := m.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	size, _, _ := unstructured.NestedInt64(object.Object, "spec", "size")
	patch := client.MergeFrom(object.DeepCopy())
	if err := unstructured.SetNestedField(object.Object, size*size, "status", "area"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, m.Status().Patch(ctx, object, patch)
}

func TestCustomResource(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{gadgetDefinition()}}
	_, err := envtest.InstallCRDs(config, options)
	must(t, err)
	t.Cleanup(func() { _ = envtest.UninstallCRDs(config, options) })
	startManager(t, ctrl.Options{}, (&measurer{}).setUp)

	object := gadget(namespace, "a", 7)
	must(t, direct.Create(ctx, object))
	color, _, _ := unstructured.NestedString(object.Object, "spec", "color")
	must(t, expect("default color", color, "blue"))
	eventually(t, func() error {
		if err := direct.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		area, _, _ := unstructured.NestedInt64(object.Object, "status", "area")
		return expect("area", area, 49)
	})
	if err := direct.Create(ctx, gadget(namespace, "b", 0)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.size") {
		t.Errorf("creating an invalid gadget: %v", err)
	}
}

// As many definitions as a large operator brings: envtest waits until each is served before the tests begin.
func TestFiftyDefinitions(t *testing.T) {
	var options envtest.CRDInstallOptions
	for i := range 50 {
		definition := gadgetDefinition()
		names := &definition.Spec.Names
		names.Plural, names.Singular = fmt.Sprintf("gizmos%d", i), fmt.Sprintf("gizmo%d", i)
		names.Kind, names.ListKind = fmt.Sprintf("Gizmo%d", i), fmt.Sprintf("Gizmo%dList", i)
		definition.Name = names.Plural + "." + definition.Spec.Group
		options.CRDs = append(options.CRDs, definition)
	}
	began := time.Now()
	installed, err := envtest.InstallCRDs(config, options)
	must(t, err)
	t.Logf("%d definitions were installed in %v", len(installed), time.Since(began))
	must(t, envtest.UninstallCRDs(config, options))
}

func TestWebhook(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	options := webhookOptions(namespace)
	must(t, options.Install(config))
	t.Cleanup(func() { _ = options.Cleanup() })
	server := webhook.NewServer(webhook.Options{
		Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
	})
	startManager(t, ctrl.Options{WebhookServer: server}, func(manager ctrl.Manager) error {
		manager.GetWebhookServer().Register("/name", &admission.Webhook{Handler: admission.HandlerFunc(nameByDefault)})
		return nil
	})
	eventually(t, func() error { return server.StartedChecker()(nil) })

	object := named(namespace, "a", "")
	object.Data = nil
	must(t, direct.Create(ctx, object))
	must(t, expect("name set by the webhook", object.Data["name"], "nobody"))
	err := direct.Create(ctx, named(namespace, "b", "voldemort"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "must not be named") {
		t.Errorf("creating what the webhook denies: %v", err)
	}
}

func nameByDefault(_ context.Context, request admission.Request) admission.Response {
	if strings.Contains(string(request.Object.Raw), "voldemort") {
		return admission.Denied("he must not be named")
	}
	named := strings.Replace(string(request.Object.Raw), `"metadata":`, `"data":{"name":"nobody"},"metadata":`, 1)
	if strings.Contains(string(request.Object.Raw), `"data":`) {
		return admission.Allowed("")
	}
	response := admission.PatchResponseFromRaw(request.Object.Raw, []byte(named))
	if len(response.Patches) == 0 {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("no patch from %s", named))
	}
	return response
}

func webhookOptions(namespace string) envtest.WebhookInstallOptions {
	path, none := "/name", admissionregistrationv1.SideEffectClassNone
	return envtest.WebhookInstallOptions{MutatingWebhooks: []*admissionregistrationv1.MutatingWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "name.suite.ferrokube.dev", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: &path}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}}}
}

package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const boxGroup = "boxes.suite.ferrokube.dev"

// squareBox is version v1 of a Box: as wide as it is high.
type squareBox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              squareSpec `json:"spec"`
}

type squareSpec struct {
	Size  int64  `json:"size"`
	Color string `json:"color,omitempty"`
}

// box is version v2, which is stored and which webhooks work on.
type box struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              boxSpec `json:"spec"`
}

type boxSpec struct {
	Width  int64  `json:"width"`
	Height int64  `json:"height"`
	Color  string `json:"color,omitempty"`
}

func (b *squareBox) DeepCopyObject() runtime.Object {
	copied := *b
	copied.ObjectMeta = *b.ObjectMeta.DeepCopy()
	return &copied
}

func (b *box) DeepCopyObject() runtime.Object {
	copied := *b
	copied.ObjectMeta = *b.ObjectMeta.DeepCopy()
	return &copied
}

func (*box) Hub() {}

func (b *squareBox) ConvertTo(hub conversion.Hub) error {
	to := hub.(*box)
	to.ObjectMeta = b.ObjectMeta
	to.Spec = boxSpec{Width: b.Spec.Size, Height: b.Spec.Size, Color: b.Spec.Color}
	return nil
}

func (b *squareBox) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*box)
	b.ObjectMeta = from.ObjectMeta
	b.Spec = squareSpec{Size: from.Spec.Width, Color: from.Spec.Color}
	return nil
}

// warehouse sets the defaults of boxes and refuses those that do not fit.
type warehouse struct{}

func (warehouse) Default(_ context.Context, b *box) error {
	if b.Spec.Color == "" {
		b.Spec.Color = "brown"
	}
	return nil
}

func (warehouse) ValidateCreate(_ context.Context, b *box) (admission.Warnings, error) {
	if b.Spec.Width > 100 {
		return nil, fmt.Errorf("a box of width %d does not fit", b.Spec.Width)
	}
	return nil, nil
}

func (warehouse) ValidateUpdate(_ context.Context, old, b *box) (admission.Warnings, error) {
	if old.Spec.Color != b.Spec.Color {
		return nil, fmt.Errorf("boxes are not painted")
	}
	return nil, nil
}

func (warehouse) ValidateDelete(_ context.Context, b *box) (admission.Warnings, error) {
	if b.Annotations["keep"] != "" {
		return nil, fmt.Errorf("this box is kept")
	}
	return nil, nil
}

func init() {
	scheme.Scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: boxGroup, Version: "v1", Kind: "Box"}, &squareBox{})
	scheme.Scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: boxGroup, Version: "v2", Kind: "Box"}, &box{})
	metav1.AddToGroupVersion(scheme.Scheme, schema.GroupVersion{Group: boxGroup, Version: "v1"})
	metav1.AddToGroupVersion(scheme.Scheme, schema.GroupVersion{Group: boxGroup, Version: "v2"})
}

func boxDefinition() *apiextensionsv1.CustomResourceDefinition {
	version := func(name string, stored bool, numbers ...string) apiextensionsv1.CustomResourceDefinitionVersion {
		spec := map[string]apiextensionsv1.JSONSchemaProps{"color": {Type: "string"}}
		for _, number := range numbers {
			spec[number] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		}
		properties := map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: spec}}
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boxes." + boxGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: boxGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "boxes", Singular: "box", Kind: "Box", ListKind: "BoxList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", false, "size"), version("v2", true, "width", "height")},
		},
	}
}

// boxWebhooks calls the paths that controller-runtime gives the webhooks of a type.
func boxWebhooks() envtest.WebhookInstallOptions {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	rules := func(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		rule := admissionregistrationv1.Rule{APIGroups: []string{boxGroup}, APIVersions: []string{"v2"}, Resources: []string{"boxes"}}
		return []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: rule}}
	}
	service := func(verb string) admissionregistrationv1.WebhookClientConfig {
		path := "/" + verb + "-" + strings.ReplaceAll(boxGroup, ".", "-") + "-v2-box"
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: &path}}
	}
	create, update, remove := admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregistrationv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "boxes"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "default." + boxGroup, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: service("mutate"), Rules: rules(create, update),
			}},
		}},
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "boxes"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "validate." + boxGroup, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: service("validate"), Rules: rules(create, update, remove),
			}},
		}},
	}
}

func TestDefaultingValidatingConversion(t *testing.T) {
	ctx, namespace := t.Context(), newNamespace(t)
	hooks := boxWebhooks()
	must(t, hooks.PrepWithoutInstalling())
	t.Cleanup(func() { _ = hooks.Cleanup() })
	definitions := envtest.CRDInstallOptions{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{boxDefinition()}, Scheme: scheme.Scheme, WebhookOptions: hooks,
	}
	_, err := envtest.InstallCRDs(config, definitions)
	must(t, err)
	t.Cleanup(func() { _ = envtest.UninstallCRDs(config, definitions) })
	server := webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir})
	startManager(t, ctrl.Options{WebhookServer: server}, func(manager ctrl.Manager) error {
		return ctrl.NewWebhookManagedBy(manager, &box{}).WithDefaulter(warehouse{}).WithValidator(warehouse{}).Complete()
	})
	eventually(t, func() error { return server.StartedChecker()(nil) })
	must(t, hooks.Install(config))

	// Written in v1, which webhooks that ask for v2 see converted.
	square := &squareBox{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: namespace}, Spec: squareSpec{Size: 3}}
	must(t, direct.Create(ctx, square))
	must(t, expect("color by default", square.Spec.Color, "brown"))
	stored := &box{}
	must(t, direct.Get(ctx, client.ObjectKeyFromObject(square), stored))
	must(t, expect("converted spec", stored.Spec, boxSpec{Width: 3, Height: 3, Color: "brown"}))

	refused := func(what string, err error, because string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), because) {
			t.Errorf("%s: %v", what, err)
		}
	}
	large := &squareBox{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: namespace}, Spec: squareSpec{Size: 200}}
	refused("creating a large box", direct.Create(ctx, large), "does not fit")
	stored.Spec.Color = "red"
	refused("painting a box", direct.Update(ctx, stored), "boxes are not painted")
	stored.Spec.Color, stored.Spec.Height = "brown", 5
	stored.Annotations = map[string]string{"keep": "yes"}
	must(t, direct.Update(ctx, stored))
	refused("deleting a kept box", direct.Delete(ctx, stored), "this box is kept")
	stored.Annotations = nil
	must(t, direct.Update(ctx, stored))
	must(t, direct.Delete(ctx, stored))
}

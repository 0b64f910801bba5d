// Command gofacts prints what only Go knows about the API types: the order of fields, pointers, omitempty, embedded
// structs, protobuf tags, the names of types. `cargo xtask record` keeps its output as a fact, from which
// `cargo xtask generate` makes the table of built-in types:
//
//	gofacts <recorded>/openapi/v3-schemas.json <recorded>/all-apis/v3-schemas-added.json
//
// Of definitions that the recorded schemas do not hold it prints what Kubernetes' own OpenAPI definitions say.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/version"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiserverv1alpha1 "k8s.io/apiserver/pkg/apis/apiserver/v1alpha1"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	openapi "k8s.io/kubernetes/pkg/generated/openapi"
	podsecurityv1 "k8s.io/pod-security-admission/admission/api/v1"
)

// registrations add every kind that a server, or a file that it reads, can hold.
var registrations = []func(*runtime.Scheme) error{
	scheme.AddToScheme, apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme, apiregistrationv1.AddToScheme,
	apiregistrationv1beta1.AddToScheme, admissionv1.AddToScheme, admissionv1beta1.AddToScheme,
	imagepolicyv1alpha1.AddToScheme, apidiscoveryv2.AddToScheme, apidiscoveryv2beta1.AddToScheme, auditv1.AddToScheme,
	metav1.AddMetaToScheme, apiserverv1.AddToScheme, apiserverv1beta1.AddToScheme, apiserverv1alpha1.AddToScheme,
	podsecurityv1.AddToScheme,
}

// special are the structs that read and write JSON in a way of their own.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                       "time",
	reflect.TypeFor[metav1.MicroTime]():                                  "microtime",
	reflect.TypeFor[metav1.Duration]():                                   "duration",
	reflect.TypeFor[resource.Quantity]():                                 "quantity",
	reflect.TypeFor[intstr.IntOrString]():                                "intorstring",
	reflect.TypeFor[runtime.RawExtension]():                              "raw",
	reflect.TypeFor[runtime.Unknown]():                                   "raw",
	reflect.TypeFor[metav1.FieldsV1]():                                   "any",
	reflect.TypeFor[apiextensionsv1.JSON]():                              "any",
	reflect.TypeFor[apiextensionsv1beta1.JSON]():                         "any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():            "orlist",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():             "orbool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray]():      "orstrings",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrArray]():       "orlist",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrBool]():        "orbool",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrStringArray](): "orstrings",
}

func main() {
	types := runtime.NewScheme()
	for _, register := range registrations {
		check(register(types))
	}
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(types, core)
	types.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{},
		&metav1.APIResourceList{})

	found := finder{}
	found.visit(reflect.TypeFor[version.Info]())
	kinds := []string{}
	for kind, t := range types.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || skippedPackages[t.PkgPath()] {
			continue
		}
		found.visit(t)
		// The options and WatchEvent are in every group version; once is enough.
		if t.PkgPath() == metaPackage && kind.Group != "" && kind.Group != "meta.k8s.io" {
			continue
		}
		group := kind.Group
		if group == "" {
			group = "core"
		}
		kinds = append(kinds, fmt.Sprintf("kind %s %s %s %s", group, kind.Version, kind.Kind, definition(t)))
	}
	slices.Sort(kinds)
	fmt.Println(strings.Join(kinds, "\n"))

	structs := found.all()
	for _, t := range structs {
		printStruct(&found, t)
	}
	printSchemas(structs, os.Args[1:])
}

const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

var skippedPackages = map[string]bool{
	"k8s.io/apimachinery/pkg/apis/meta/internalversion": true,
	"k8s.io/apimachinery/pkg/runtime":                   true,
}

// finder collects structs and, going through them, all that they refer to.
type finder struct {
	seen  map[reflect.Type]bool
	queue []reflect.Type
}

func (f *finder) visit(t reflect.Type) {
	if f.seen == nil {
		f.seen = map[reflect.Type]bool{}
	}
	if !f.seen[t] {
		f.seen[t] = true
		f.queue = append(f.queue, t)
	}
}

func (f *finder) all() []reflect.Type {
	for i := 0; i < len(f.queue); i++ {
		for _, field := range reflect.VisibleFields(f.queue[i]) {
			if len(field.Index) == 1 && printed(field) {
				f.spell(field.Type)
			}
		}
	}
	sort.Slice(f.queue, func(i, j int) bool { return definition(f.queue[i]) < definition(f.queue[j]) })
	return f.queue
}

func printed(field reflect.StructField) bool {
	return field.IsExported() && field.Tag.Get("json") != "-"
}

// definition is the OpenAPI name: k8s.io/api/core/v1 Pod is io.k8s.api.core.v1.Pod.
func definition(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// spell writes a type as *x for a pointer, [x] for a list, {x} for a map, !x for a list that protobuf wraps in a message,
// with ~Name behind it where Go's name does not follow.
func (f *finder) spell(t reflect.Type) string {
	spelled, follows := f.spellBare(t)
	if t.String() != follows {
		spelled += "~" + t.String()
	}
	return spelled
}

func (f *finder) spellBare(t reflect.Type) (spelled, follows string) {
	if name, ok := special[t]; ok {
		if strings.HasPrefix(name, "or") {
			props := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
			if t.PkgPath() != props.PkgPath() {
				props = reflect.TypeFor[apiextensionsv1beta1.JSONSchemaProps]()
			}
			f.visit(props)
			name += ":" + definition(props)
		}
		return name, ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + f.spell(t.Elem()), "*" + t.Elem().String()
	case reflect.Struct:
		f.visit(t)
		return definition(t), t.String()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", "[]uint8"
		}
		spelled := "[" + f.spell(t.Elem()) + "]"
		if _, ok := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) }); ok {
			spelled = "!" + spelled
		}
		return spelled, "[]" + t.Elem().String()
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return "{" + f.spell(t.Elem()) + "}", "map[string]" + t.Elem().String()
		}
	case reflect.Interface:
		return "any", "interface {}"
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.String, reflect.Float64:
		return t.Kind().String(), t.Kind().String()
	}
	panic("no spelling for " + t.String())
}

// printStruct prints a struct's fields in their order: JSON name (> for embedded ones), protobuf tag, flags, type.
func printStruct(f *finder, t reflect.Type) {
	fmt.Printf("struct %s %s\n", definition(t), t.String())
	for i := range t.NumField() {
		field := t.Field(i)
		if !printed(field) {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && !field.Anonymous {
			panic("no JSON name: " + t.String() + "." + field.Name)
		}
		if name == "" {
			name = ">"
		}
		flags := ""
		for _, option := range strings.Split(options, ",") {
			flags += map[string]string{"omitempty": "o", "omitzero": "z"}[option]
		}
		if flags == "" {
			flags = "-"
		}
		tag := "-"
		if parts := strings.Split(field.Tag.Get("protobuf"), ","); len(parts) > 1 {
			tag = parts[1]
		}
		line := fmt.Sprintf(" %s %s %s %s", name, tag, flags, f.spell(field.Type))
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			line += " strategy=" + strategy
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			line += " mergekey=" + key
		}
		fmt.Println(line)
	}
}

// printSchemas prints the extensions of definitions that the recorded files do not hold.
func printSchemas(structs []reflect.Type, recordedFiles []string) {
	recorded := map[string]json.RawMessage{}
	for _, file := range recordedFiles {
		data, err := os.ReadFile(file)
		check(err)
		check(json.Unmarshal(data, &recorded))
	}
	definitions := openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })
	for _, t := range structs {
		name := definition(t)
		if _, ok := recorded[name]; ok {
			continue
		}
		// Kinds that are only read from files or sent to webhooks have no definition.
		if lines := describe(definitions[name].Schema); len(lines) > 0 {
			fmt.Println("schema " + name)
			fmt.Println(strings.Join(lines, "\n"))
		}
	}
}

func describe(s spec.Schema) []string {
	lines := []string{}
	add := func(name, attributes string) {
		if attributes != "" {
			lines = append(lines, " "+name+attributes)
		}
	}
	add("-", extensions(s.Extensions))
	names := []string{}
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		property := s.Properties[name]
		attributes := extensions(property.Extensions)
		if len(property.Enum) > 0 {
			values := []string{}
			for _, value := range property.Enum {
				values = append(values, fmt.Sprint(value))
			}
			attributes += " enum=" + strings.Join(values, ",")
		}
		add(name, attributes)
	}
	if len(s.Required) > 0 {
		required := slices.Sorted(slices.Values(s.Required))
		lines = append(lines, " required "+strings.Join(required, ","))
	}
	if unions, ok := s.Extensions["x-kubernetes-unions"]; ok {
		text, err := json.Marshal(unions)
		check(err)
		lines = append(lines, " unions "+string(text))
	}
	return lines
}

func extensions(e spec.Extensions) string {
	attributes := ""
	if kind, ok := e["x-kubernetes-list-type"]; ok {
		attributes += fmt.Sprintf(" list=%v", kind)
	}
	if keys, ok := e["x-kubernetes-list-map-keys"]; ok {
		names := []string{}
		for _, key := range keys.([]any) {
			names = append(names, key.(string))
		}
		attributes += " keys=" + strings.Join(names, ",")
	}
	if kind, ok := e["x-kubernetes-map-type"]; ok {
		attributes += fmt.Sprintf(" map=%v", kind)
	}
	return attributes
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

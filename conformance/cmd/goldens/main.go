// Command goldens writes an object of every API kind with every field set, as JSON, YAML and protobuf, to the files
// <group>.<version>.<Kind>.json, .yaml and .pb of a folder:
//
//	goldens <folder>
//
// The objects are those of the compatibility tests of Kubernetes, made by the package that those tests use.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// registrations add every kind of k8s.io/api: those that clients use, and those that only servers send.
var registrations = []func(*runtime.Scheme) error{
	scheme.AddToScheme, admissionv1.AddToScheme, admissionv1beta1.AddToScheme, apidiscoveryv2.AddToScheme,
	apidiscoveryv2beta1.AddToScheme, imagepolicyv1alpha1.AddToScheme,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: goldens <folder>")
		os.Exit(2)
	}
	types := runtime.NewScheme()
	for _, register := range registrations {
		check(register(types))
	}
	options := roundtrip.NewCompatibilityTestOptions(types).Complete(&testing.T{})
	for _, kind := range options.Kinds {
		group := kind.Group
		if group == "" {
			group = "core"
		}
		name := filepath.Join(os.Args[1], strings.Join([]string{group, kind.Version, kind.Kind}, "."))
		for extension, encoder := range map[string]runtime.Encoder{"json": options.JSON, "yaml": options.YAML, "pb": options.Proto} {
			var encoded bytes.Buffer
			check(encoder.Encode(options.FilledObjects[kind], &encoded))
			check(os.WriteFile(name+"."+extension, encoded.Bytes(), 0o644))
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

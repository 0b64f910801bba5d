package main

import (
	"encoding/json"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// served is the version of the modules. Servers of it have to work with the version before, unless a flag says otherwise.
var served = func() *version.Version {
	before := environment.DefaultCompatibilityVersion()
	return version.MajorMinor(before.Major(), before.Minor()+1)
}()

// outcomeNew is the name of the outcome that new expressions have on a server with default flags.
var outcomeNew = func() string {
	before := environment.DefaultCompatibilityVersion()
	return fmt.Sprintf("outcome_new_%d_%d", before.Major(), before.Minor())
}()

// environment is that of a version with the variables of the fact, the values that are bound, and the type of self.
func (f *fact) environment(of *version.Version) (*environment.EnvSet, map[string]any, *apiservercel.DeclType) {
	set := environment.MustBaseEnvSet(of)
	// Always there, whichever version the expression is for.
	options := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
	inputs := map[string]any{}
	var self *apiservercel.DeclType
	if f.Env == "base" {
		self = f.declareVariables(&options, inputs)
	} else {
		f.declareAdmission(&options, inputs)
	}
	set, err := set.Extend(options)
	check(err)
	if f.Env == "mutation" {
		// These know types by name, after all others.
		set, err = set.Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: []cel.EnvOption{
			common.ResolverEnvOption(&mutation.DynamicTypeResolver{}), environment.UnversionedLib(library.JSONPatch),
		}})
		check(err)
	}
	return set, inputs, self
}

// declareAdmission declares what policies see.
func (f *fact) declareAdmission(options *environment.VersionedOptions, inputs map[string]any) {
	namespace, request := plugincel.BuildNamespaceType(), plugincel.BuildRequestType()
	options.DeclTypes = append(options.DeclTypes, namespace, request)
	for name, of := range map[string]*cel.Type{
		plugincel.ObjectVarName: cel.DynType, plugincel.OldObjectVarName: cel.DynType, plugincel.ParamsVarName: cel.DynType,
		plugincel.NamespaceVarName: namespace.CelType(), plugincel.RequestVarName: request.CelType(),
		plugincel.AuthorizerVarName: library.AuthorizerType, plugincel.RequestResourceAuthorizerVarName: library.ResourceCheckType,
	} {
		options.EnvOptions = append(options.EnvOptions, cel.Variable(name, of))
	}
	for name, variable := range f.Vars {
		switch {
		case variable.Authz == nil:
			inputs[name] = decoded(variable.Value)
		case name == plugincel.RequestResourceAuthorizerVarName:
			inputs[name] = library.NewResourceAuthorizerVal(variable.Authz.user(), variable.Authz, variable.Authz.Resource)
		default:
			inputs[name] = library.NewAuthorizerVal(variable.Authz.user(), variable.Authz)
		}
	}
}

// declareVariables declares variables by their schemas or types, and returns the type of self.
func (f *fact) declareVariables(options *environment.VersionedOptions, inputs map[string]any) *apiservercel.DeclType {
	var self *apiservercel.DeclType
	variableSelf, hasSelf := f.Vars["self"]
	if hasSelf {
		self = variableSelf.declared().MaybeAssignTypeName("selfType0")
	}
	declare := func(name string, of *cel.Type) {
		options.EnvOptions = append(options.EnvOptions, cel.Variable(name, of))
	}
	for name, variable := range f.Vars {
		var typeName string
		ofSelf := func() ref.Val { return variable.convertedBy(variableSelf) }
		switch {
		case json.Unmarshal(variable.Schema, &typeName) != nil:
			decl := self
			if name != "self" {
				decl = variable.declared().MaybeAssignTypeName("selfType1")
			}
			declare(name, decl.CelType())
			options.DeclTypes = append(options.DeclTypes, decl)
		case typeName == "self":
			declare(name, self.CelType())
			inputs[name] = ofSelf()
			continue
		case typeName == "optional(self)":
			declare(name, types.NewOptionalType(self.CelType()))
			inputs[name] = types.OptionalNone
			if variable.Value != nil {
				inputs[name] = types.OptionalOf(ofSelf())
			}
			continue
		default:
			declare(name, namedType(typeName))
		}
		switch {
		case variable.Value != nil:
			inputs[name] = variable.convertedBy(variable)
		case variable.Cel != nil:
			inputs[name] = untag(variable.Cel)
		}
	}
	return self
}

// resource is what a request is about, as the authorizer is asked about it.
type resource struct {
	Group       string `json:"group"`
	Version     string `json:"version"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
}

func (r *resource) GetName() string        { return r.Name }
func (r *resource) GetNamespace() string   { return r.Namespace }
func (r *resource) GetSubresource() string { return r.Subresource }
func (r *resource) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

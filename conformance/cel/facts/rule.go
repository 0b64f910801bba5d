package main

import (
	"context"
	"encoding/json"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// rule is a schema with x-kubernetes-validations and, if it is to be evaluated, an object.
type rule struct {
	Schema json.RawMessage `json:"schema"`
	Root   bool            `json:"root,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Old    json.RawMessage `json:"old,omitempty"`
}

func (r *rule) record(outcome map[string]any) bool {
	schema := structural(r.Schema)
	compiled, err := schemacel.Compile(schema, model.SchemaDeclType(schema, r.Root), celconfig.PerCallLimit,
		environment.MustBaseEnvSet(served), schemacel.StoredExpressionsEnvLoader())
	check(err)
	if len(compiled) > 0 {
		outcome["rule_compile"] = compiledRules(compiled)
	}
	if r.Value != nil {
		first := r.validate()
		for range evaluations - 1 {
			if !reflect.DeepEqual(first, r.validate()) {
				return false
			}
		}
		for key, value := range first {
			outcome[key] = value
		}
	}
	if errs := r.definitionErrors(); len(errs) > 0 {
		outcome["crd_errors"] = listed(errs)
	}
	return true
}

func compiledRules(rules []schemacel.CompilationResult) []map[string]any {
	out := []map[string]any{}
	for _, rule := range rules {
		fields := map[string]any{}
		set := func(name string, value any, isSet bool) {
			if isSet {
				fields[name] = value
			}
		}
		if rule.Error != nil {
			fields["error"] = masked(rule.Error.Error())
		}
		if rule.MessageExpressionError != nil {
			fields["message_expression_error"] = masked(rule.MessageExpressionError.Error())
		}
		set("max_cost", rule.MaxCost, rule.MaxCost > 0)
		set("max_cardinality", rule.MaxCardinality, rule.MaxCardinality > 0)
		set("uses_old_self", true, rule.UsesOldSelf)
		set("field_path", rule.NormalizedRuleFieldPath, rule.NormalizedRuleFieldPath != "")
		set("message_expression_max_cost", rule.MessageExpressionMaxCost, rule.MessageExpressionMaxCost > 0)
		out = append(out, fields)
	}
	return out
}

func (r *rule) validate() map[string]any {
	schema := structural(r.Schema)
	validator := schemacel.NewValidator(schema, r.Root, celconfig.PerCallLimit)
	if validator == nil {
		return nil
	}
	var old any
	if r.Old != nil {
		old = decoded(r.Old)
	}
	errs, remaining := validator.Validate(context.Background(), field.NewPath("root"), schema, decoded(r.Value), old, celconfig.RuntimeCELCostBudget)
	outcome := map[string]any{"spent": celconfig.RuntimeCELCostBudget - remaining}
	if len(errs) > 0 {
		outcome["rule_errors"] = listed(errs)
	}
	return outcome
}

func listed(errs field.ErrorList) []map[string]string {
	out := []map[string]string{}
	for _, err := range errs {
		out = append(out, map[string]string{"type": string(err.Type), "field": err.Field, "detail": masked(err.Detail), "text": masked(err.Error())})
	}
	return out
}

// definitionErrors are the errors of creating a definition that has the schema, as its root or else as property f.
func (r *rule) definitionErrors() field.ErrorList {
	var external apiextensionsv1.JSONSchemaProps
	check(json.Unmarshal(r.Schema, &external))
	if !r.Root {
		external = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"f": external}}
	}
	var schema apiextensions.JSONSchemaProps
	check(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &schema, nil))
	preserve := false
	names := apiextensions.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", Kind: "Foo", ListKind: "FooList"}
	definition := &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "foos.example.com"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "example.com", Version: "v1", Names: names, Scope: apiextensions.NamespaceScoped,
			Versions:              []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
			Conversion:            &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
			Validation:            &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &schema},
			PreserveUnknownFields: &preserve,
		},
		Status: apiextensions.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	return validation.ValidateCustomResourceDefinition(context.Background(), definition)
}

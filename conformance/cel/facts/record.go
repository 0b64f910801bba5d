package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// evaluations is how often an expression is evaluated. One that answers differently is not recorded: its cost depends on the order of
// Go's maps.
const evaluations = 6

type variable struct {
	Schema json.RawMessage `json:"schema,omitempty"`
	Root   bool            `json:"root,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Cel    any             `json:"cel,omitempty"`
	Authz  *fakeAuthorizer `json:"authz,omitempty"`
}

type fact struct {
	Name    string              `json:"name"`
	Group   string              `json:"group"`
	Origin  string              `json:"origin,omitempty"`
	Env     string              `json:"env"`
	Expr    string              `json:"expr,omitempty"`
	ExprGen []any               `json:"expr_gen,omitempty"`
	Vars    map[string]variable `json:"vars,omitempty"`
	Rule    *rule               `json:"rule,omitempty"`
	Outcome map[string]any      `json:"outcome"`
}

var selfTypeName = regexp.MustCompile(`selfType\d+`)

func masked(text string) string { return selfTypeName.ReplaceAllString(text, "selfType") }

// record fills in the outcome; false if there is none that is always the same.
func (f *fact) record() (steady bool) {
	defer func() {
		if recover() != nil {
			steady = false
		}
	}()
	f.Outcome = map[string]any{}
	if f.Rule != nil {
		return f.Rule.record(f.Outcome)
	}
	return f.expression()
}

func (f *fact) expression() bool {
	env, inputs, self := f.environment()
	ast, issues := env.Compile(f.Expr)
	if issues.Err() != nil {
		f.Outcome["compile_error"] = masked(issues.String())
		return true
	}
	f.Outcome["type"] = masked(ast.OutputType().String())
	estimator := &library.CostEstimator{}
	if self != nil {
		estimator.SizeEstimator = &sizes{self}
	}
	if estimate, err := env.EstimateCost(ast, estimator); err != nil {
		f.Outcome["est_error"] = err.Error()
	} else {
		f.Outcome["est_cost"] = map[string]uint64{"min": estimate.Min, "max": estimate.Max}
	}
	program, err := env.Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(estimator), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		f.Outcome["program_error"] = masked(err.Error())
		return true
	}
	first := evaluated(program, inputs)
	for range evaluations - 1 {
		if !reflect.DeepEqual(first, evaluated(program, inputs)) {
			return false
		}
	}
	for key, value := range first {
		f.Outcome[key] = value
	}
	return true
}

func evaluated(program cel.Program, inputs map[string]any) map[string]any {
	out := map[string]any{}
	value, details, err := program.Eval(inputs)
	if err != nil {
		out["error"] = masked(err.Error())
	} else {
		out["value"] = tag(value)
	}
	if details != nil && details.ActualCost() != nil {
		out["cost"] = *details.ActualCost()
	}
	return out
}

// environment is the one for stored expressions with the variables of the fact, the values that are bound, and the type of self.
func (f *fact) environment() (*cel.Env, map[string]any, *apiservercel.DeclType) {
	set := environment.MustBaseEnvSet(version.MajorMinor(1, 37))
	inputs := map[string]any{}
	var self *apiservercel.DeclType
	if variable, ok := f.Vars["self"]; ok {
		self = variable.declared().MaybeAssignTypeName("selfType0")
	}
	options := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
	for name, variable := range f.Vars {
		if variable.Authz != nil {
			options.EnvOptions = append(options.EnvOptions, cel.Variable(name, library.AuthorizerType))
			inputs[name] = library.NewAuthorizerVal(variable.Authz.user(), variable.Authz)
			continue
		}
		if f.Env == "admission" {
			options.EnvOptions = append(options.EnvOptions, cel.Variable(name, cel.DynType))
			inputs[name] = decoded(variable.Value)
			continue
		}
		var typeName string
		if json.Unmarshal(variable.Schema, &typeName) == nil {
			options.EnvOptions = append(options.EnvOptions, cel.Variable(name, namedType(typeName)))
		} else {
			decl := self
			if name != "self" {
				decl = variable.declared().MaybeAssignTypeName("selfType1")
			}
			options.EnvOptions = append(options.EnvOptions, cel.Variable(name, decl.CelType()))
			options.DeclTypes = append(options.DeclTypes, decl)
		}
		switch {
		case variable.Value != nil:
			inputs[name] = variable.converted()
		case variable.Cel != nil:
			inputs[name] = untag(variable.Cel)
		}
	}
	set, err := set.Extend(options)
	check(err)
	return set.StoredExpressionsEnv(), inputs, self
}

func (v variable) structural() *schema.Structural { return structural(v.Schema) }

func structural(text []byte) *schema.Structural {
	var external apiextensionsv1.JSONSchemaProps
	check(json.Unmarshal(text, &external))
	var internal apiextensions.JSONSchemaProps
	check(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &internal, nil))
	structural, err := schema.NewStructural(&internal)
	check(err)
	return structural
}

func (v variable) declared() *apiservercel.DeclType {
	return model.SchemaDeclType(v.structural(), v.Root)
}

func (v variable) converted() ref.Val {
	structural := v.structural()
	if v.Root {
		structural = model.WithTypeAndObjectMeta(structural)
	}
	return schemacel.UnstructuredToVal(decoded(v.Value), structural)
}

func decoded(text []byte) any {
	var value any
	check(utiljson.Unmarshal(text, &value))
	return value
}

func namedType(name string) *cel.Type {
	inner := func(prefix string) (string, bool) {
		rest, ok := strings.CutPrefix(name, prefix)
		return strings.TrimSuffix(rest, ")"), ok
	}
	if item, ok := inner("list("); ok {
		return cel.ListType(namedType(item))
	}
	if both, ok := inner("map("); ok {
		key, value, _ := strings.Cut(both, ", ")
		return cel.MapType(namedType(key), namedType(value))
	}
	if item, ok := inner("optional("); ok {
		return cel.OptionalType(namedType(item))
	}
	if item, ok := inner("type("); ok {
		return types.NewTypeTypeWithParam(namedType(item))
	}
	for _, known := range []*cel.Type{cel.BoolType, cel.IntType, cel.UintType, cel.DoubleType, cel.StringType, cel.BytesType, cel.DynType, cel.NullType} {
		if known.String() == name {
			return known
		}
	}
	switch name {
	case "timestamp":
		return cel.TimestampType
	case "duration":
		return cel.DurationType
	case "wrapper(int)":
		return types.NewNullableType(cel.IntType)
	}
	panic(fmt.Sprintf("unknown type %s", name))
}

// sizes answers how large a value at a path below self can be.
type sizes struct{ self *apiservercel.DeclType }

func (s *sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 {
		return nil
	}
	at := s.self
	for _, step := range path[1:] {
		next := (*apiservercel.DeclType)(nil)
		switch step {
		case "@items", "@values":
			next = at.ElemType
		case "@keys":
			next = at.KeyType
		default:
			if field, ok := at.Fields[step]; ok {
				next = field.Type
			}
		}
		if next == nil {
			return nil
		}
		at = next
	}
	return &checker.SizeEstimate{Max: uint64(at.MaxElements)}
}

func (s *sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

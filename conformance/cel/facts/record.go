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
	ExprGen []piece             `json:"expr_gen,omitempty"`
	Vars    map[string]variable `json:"vars,omitempty"`
	Rule    *rule               `json:"rule,omitempty"`
	Outcome map[string]any      `json:"outcome"`
	// OutcomeNew is set where a new expression is judged otherwise; see [outcomeNew].
	OutcomeNew map[string]any `json:"-"`
}

// piece is a text and how often it is repeated, written `["text", 3]`.
type piece struct {
	text  string
	count int
}

func (p *piece) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.text, &p.count})
}

func (p piece) MarshalJSON() ([]byte, error) { return json.Marshal([]any{p.text, p.count}) }

var selfTypeName = regexp.MustCompile(`selfType\d+`)

func masked(text string) string { return selfTypeName.ReplaceAllString(text, "selfType") }

// record fills in the outcome; false if there is none that is always the same.
func (f *fact) record() (steady bool) {
	defer func() {
		if recover() != nil {
			steady = false
		}
	}()
	if f.Rule != nil {
		f.Outcome = map[string]any{}
		return f.Rule.record(f.Outcome)
	}
	set, inputs, self := f.environment(served)
	if f.Outcome, steady = f.outcome(set.StoredExpressionsEnv(), inputs, self); !steady {
		return false
	}
	// What a server with default flags says of a new expression, which has to work with the version before too.
	set, inputs, self = f.environment(environment.DefaultCompatibilityVersion())
	ofNew, steady := f.outcome(set.NewExpressionsEnv(), inputs, self)
	if steady && !reflect.DeepEqual(ofNew, f.Outcome) {
		f.OutcomeNew = ofNew
	}
	return steady
}

func (f *fact) outcome(env *cel.Env, inputs map[string]any, self *apiservercel.DeclType) (outcome map[string]any, steady bool) {
	outcome = map[string]any{}
	ast, issues := env.Compile(f.text())
	if issues.Err() != nil {
		outcome["compile_error"] = masked(issues.String())
		return outcome, true
	}
	// A field that is not known has a type without a name.
	if name := masked(ast.OutputType().String()); name != "" {
		outcome["type"] = name
	}
	estimator := &library.CostEstimator{}
	if self != nil {
		estimator.SizeEstimator = &sizes{self}
	}
	if estimate, err := env.EstimateCost(ast, estimator); err != nil {
		outcome["est_error"] = err.Error()
	} else {
		outcome["est_cost"] = map[string]uint64{"min": estimate.Min, "max": estimate.Max}
	}
	program, err := env.Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(estimator), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		outcome["program_error"] = masked(err.Error())
		return outcome, true
	}
	first := evaluated(program, inputs)
	for range evaluations - 1 {
		if !reflect.DeepEqual(first, evaluated(program, inputs)) {
			return nil, false
		}
	}
	for key, value := range first {
		outcome[key] = value
	}
	return outcome, true
}

// text is the expression, or the pieces that it is made of, each so many times.
func (f *fact) text() string {
	var text strings.Builder
	text.WriteString(f.Expr)
	for _, piece := range f.ExprGen {
		text.WriteString(strings.Repeat(piece.text, piece.count))
	}
	return text.String()
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

// convertedBy is the value, converted by the schema of a variable.
func (v variable) convertedBy(of variable) ref.Val {
	structural := of.structural()
	if of.Root {
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

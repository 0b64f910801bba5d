// Command spec prints the conformance tests of google/cel-spec as JSON, one case a line: those that need no protocol buffer
// messages, no container and no functions of their own. Values are tagged with their types, as in the recorded facts.
//
//	spec <folder of the module cel.dev/expr>
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cel.dev/expr"
	_ "cel.dev/expr/conformance/proto2"
	_ "cel.dev/expr/conformance/proto3"
	"cel.dev/expr/conformance/test"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Files about protocol buffers, or about extensions that Kubernetes does not enable.
var leftOut = map[string]bool{
	"bindings_ext": true, "block_ext": true, "encoders_ext": true, "enums": true, "math_ext": true,
	"proto2": true, "proto2_ext": true, "proto3": true, "wrappers": true, "unknowns": true,
}

func main() {
	files, err := filepath.Glob(filepath.Join(os.Args[1], "tests/simple/testdata/*.textproto"))
	if err != nil || len(files) == 0 {
		fmt.Fprintln(os.Stderr, "no tests found:", err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	all, printed := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		var tests test.SimpleTestFile
		if err := prototext.Unmarshal(text, &tests); err != nil {
			fmt.Fprintln(os.Stderr, file, err)
			os.Exit(1)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".textproto")
		for _, section := range tests.GetSection() {
			for _, t := range section.GetTest() {
				all++
				c, ok := convert(t)
				if !ok || leftOut[name] {
					continue
				}
				printed++
				c["name"] = name + "/" + section.GetName() + "/" + t.GetName()
				if err := out.Encode(c); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%d of %d cases\n", printed, all)
}

// convert returns the case as JSON, or false for one that is about messages.
func convert(t *test.SimpleTest) (map[string]any, bool) {
	// The two messages that CEL has types for are no messages to expressions.
	text := strings.NewReplacer("google.protobuf.Timestamp", "", "google.protobuf.Duration", "").Replace(t.GetExpr())
	mentionsMessage := strings.Contains(text, "TestAllTypes") || strings.Contains(text, "google.protobuf.")
	if t.GetContainer() != "" || t.GetDisableMacros() || t.GetDisableCheck() || mentionsMessage {
		return nil, false
	}
	c := map[string]any{"expr": t.GetExpr()}
	types := map[string]any{}
	for _, decl := range t.GetTypeEnv() {
		ident := decl.GetIdent()
		if ident == nil {
			return nil, false
		}
		name, ok := typeName(ident.GetType())
		if !ok {
			return nil, false
		}
		types[decl.GetName()] = name
	}
	c["types"] = types
	values := map[string]any{}
	for name, bound := range t.GetBindings() {
		value, ok := tag(bound.GetValue())
		if !ok {
			return nil, false
		}
		values[name] = value
	}
	c["values"] = values
	if t.GetCheckOnly() {
		c["check_only"] = true
	}
	switch want := t.GetResultMatcher().(type) {
	case nil:
		c["value"] = map[string]any{"bool": true}
	case *test.SimpleTest_Value:
		value, ok := tag(want.Value)
		if !ok {
			return nil, false
		}
		c["value"] = value
	case *test.SimpleTest_TypedResult:
		name, ok := typeName(want.TypedResult.GetDeducedType())
		if !ok {
			return nil, false
		}
		c["type"] = name
		if want.TypedResult.GetResult() != nil {
			value, ok := tag(want.TypedResult.GetResult())
			if !ok {
				return nil, false
			}
			c["value"] = value
		}
	case *test.SimpleTest_EvalError:
		c["error"] = true
	default:
		return nil, false
	}
	return c, true
}

func typeName(t *expr.Type) (string, bool) {
	switch kind := t.GetTypeKind().(type) {
	case *expr.Type_Dyn:
		return "dyn", true
	case *expr.Type_Null:
		return "null_type", true
	case *expr.Type_Primitive:
		return strings.ToLower(strings.TrimSuffix(kind.Primitive.String(), "64")), true
	case *expr.Type_WellKnown:
		switch kind.WellKnown {
		case expr.Type_TIMESTAMP:
			return "timestamp", true
		case expr.Type_DURATION:
			return "duration", true
		}
		return "", false
	case *expr.Type_ListType_:
		inner, ok := typeName(kind.ListType.GetElemType())
		return "list(" + inner + ")", ok
	case *expr.Type_MapType_:
		key, ok1 := typeName(kind.MapType.GetKeyType())
		value, ok2 := typeName(kind.MapType.GetValueType())
		return "map(" + key + ", " + value + ")", ok1 && ok2
	case *expr.Type_Type:
		inner, ok := typeName(kind.Type)
		return "type(" + inner + ")", ok
	case *expr.Type_AbstractType_:
		if kind.AbstractType.GetName() != "optional_type" || len(kind.AbstractType.GetParameterTypes()) != 1 {
			return "", false
		}
		inner, ok := typeName(kind.AbstractType.GetParameterTypes()[0])
		return "optional(" + inner + ")", ok
	}
	return "", false
}

// tag returns the value as {"int": 1}, or false for a message.
func tag(v *expr.Value) (any, bool) {
	one := func(name string, value any) (any, bool) { return map[string]any{name: value}, true }
	switch kind := v.GetKind().(type) {
	case *expr.Value_NullValue:
		return one("null", nil)
	case *expr.Value_BoolValue:
		return one("bool", kind.BoolValue)
	case *expr.Value_Int64Value:
		return one("int", kind.Int64Value)
	case *expr.Value_Uint64Value:
		return one("uint", kind.Uint64Value)
	case *expr.Value_DoubleValue:
		return one("double", double(kind.DoubleValue))
	case *expr.Value_StringValue:
		return one("string", kind.StringValue)
	case *expr.Value_BytesValue:
		return one("bytes", base64.StdEncoding.EncodeToString(kind.BytesValue))
	case *expr.Value_TypeValue:
		return one("type", kind.TypeValue)
	case *expr.Value_ListValue:
		items := []any{}
		for _, item := range kind.ListValue.GetValues() {
			value, ok := tag(item)
			if !ok {
				return nil, false
			}
			items = append(items, value)
		}
		return one("list", items)
	case *expr.Value_MapValue:
		entries := []any{}
		for _, entry := range kind.MapValue.GetEntries() {
			key, ok1 := tag(entry.GetKey())
			value, ok2 := tag(entry.GetValue())
			if !ok1 || !ok2 {
				return nil, false
			}
			entries = append(entries, []any{key, value})
		}
		return one("map", entries)
	case *expr.Value_ObjectValue:
		return message(kind.ObjectValue)
	}
	return nil, false
}

// message tags the two messages that are plain values in CEL.
func message(any *anypb.Any) (any, bool) {
	inner, err := any.UnmarshalNew()
	if err != nil {
		return nil, false
	}
	switch m := inner.(type) {
	case *timestamppb.Timestamp:
		return map[string]interface{}{"timestamp": m.AsTime().UTC().Format(time.RFC3339Nano)}, true
	case *durationpb.Duration:
		return map[string]interface{}{"duration": m.AsDuration().String()}, true
	}
	return nil, false
}

func double(d float64) any {
	switch {
	case math.IsNaN(d):
		return "NaN"
	case math.IsInf(d, 1):
		return "Infinity"
	case math.IsInf(d, -1):
		return "-Infinity"
	case d == 0 && math.Signbit(d):
		return "-0"
	}
	return strconv.FormatFloat(d, 'g', -1, 64)
}

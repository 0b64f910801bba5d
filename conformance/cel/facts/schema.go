package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
)

// The schema of self in expressions, with bounds and without.
var boundedSchema, unboundedSchema = selfSchema(true), selfSchema(false)

func selfSchema(bounded bool) string {
	bound := func(text string) string {
		if bounded {
			return "," + text
		}
		return ""
	}
	text, items, entries := bound(`"maxLength":10`), bound(`"maxItems":5`), bound(`"maxProperties":4`)
	list := func(item string) string { return `{"type":"array","items":` + item + items + `}` }
	word, whole := `{"type":"string"`+text+`}`, `{"type":"integer"}`
	properties := map[string]string{
		"s": word, "i": whole, "n": `{"type":"number"}`, "b": `{"type":"boolean"}`, "li": list(whole), "ls": list(word), "lb": list(`{"type":"boolean"}`),
		"ln": list(`{"type":"number"}`), "ll": list(list(whole)),
		"m":   `{"type":"object","additionalProperties":` + word + entries + `}`,
		"mi":  `{"type":"object","additionalProperties":` + whole + entries + `}`,
		"o":   `{"type":"object","properties":{"a":` + word + `,"b":` + whole + `,"c":` + word + `}}`,
		"lo":  `{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":` + word + `,"v":` + whole + `}}` + items + `}`,
		"set": `{"type":"array","x-kubernetes-list-type":"set","items":` + word + items + `}`,
		"ts":  `{"type":"string","format":"date-time"}`, "du": `{"type":"string","format":"duration"}`, "by": `{"type":"string","format":"byte"` + text + `}`,
		"dt": `{"type":"string","format":"date"}`, "any": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
		"ios": `{"x-kubernetes-int-or-string":true}`, "nul": `{"type":"string","nullable":true` + text + `}`, "none": word,
	}
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		out = append(out, fmt.Sprintf("%q:%s", name, properties[name]))
	}
	return `{"type":"object","properties":{` + strings.Join(out, ",") + `}}`
}

var selfValues = []string{
	`{"s":"abc","i":3,"n":1.5,"b":true,"li":[1,2,3],"ls":["a","b"],"lb":[true,false],"ln":[0.5,2],"ll":[[1],[2,3]],"m":{"a":"x"},"mi":{"a":1},"o":{"a":"y","b":2},"lo":[{"k":"a","v":1},{"k":"b","v":2}],"set":["x","y"],"ts":"2024-02-29T23:58:07Z","du":"1h","by":"YWJj","dt":"2024-02-29","any":{"x":1,"y":["z"]},"ios":5,"nul":null}`,
	`{"s":"","i":0,"n":2,"b":false,"li":[],"ls":[],"lb":[],"ln":[],"ll":[],"m":{},"mi":{},"o":{},"lo":[],"set":[],"ts":"1970-01-01T00:00:00Z","du":"0s","by":"","dt":"1970-01-01","any":{},"ios":"50%","nul":"n"}`,
	`{"s":"1.2.3.4","i":-7,"n":-0.25,"b":true,"li":[5,1,5],"ls":["b","a","b","héllo"],"lb":[true],"ln":[1e10],"ll":[[]],"m":{"zz":"a,b"},"mi":{"k":9},"o":{"a":"abcdefghij","b":-1,"c":""},"lo":[{"k":"a"}],"set":["y","x","z"],"ts":"2009-02-13T23:31:30.5Z","du":"1m30s","by":"/w==","dt":"2023-12-31","any":{"x":{"a":[1,2]}},"ios":0}`,
}

// rule is a schema of one type with random bounds, an expression over self, and an object of the schema.
func (g *generator) rule() *rule {
	schema, value, ty := g.typedSchema(2)
	g.locals = []local{{"self", ty}}
	if g.percent(25) {
		g.locals = append(g.locals, local{"oldSelf", ty})
	}
	validation := map[string]any{"rule": g.expr(cel.BoolType, 1+g.IntN(3), "")}
	if g.percent(20) {
		validation["messageExpression"] = g.expr(cel.StringType, 1+g.IntN(2), "")
	}
	if g.percent(10) {
		validation["message"] = pick(g, []string{"no", " spaced ", "two\nlines"})
	}
	if g.percent(10) {
		validation["optionalOldSelf"] = true
	}
	schema["x-kubernetes-validations"] = []any{validation}
	text, err := json.Marshal(schema)
	check(err)
	object, err := json.Marshal(value)
	check(err)
	made := &rule{Schema: text, Value: object}
	if g.percent(40) {
		made.Old = object
	}
	return made
}

// typedSchema is a schema, a value that fits it, and the type that expressions see.
func (g *generator) typedSchema(depth int) (map[string]any, any, *cel.Type) {
	schema := map[string]any{}
	set := func(name string, value any) {
		if g.percent(40) {
			schema[name] = value
		}
	}
	kind := g.IntN(9)
	if depth <= 0 {
		kind = g.IntN(6)
	}
	switch kind {
	case 0:
		schema["type"] = "integer"
		set("maximum", 100)
		return schema, g.IntN(20) - 5, cel.IntType
	case 1:
		schema["type"] = "number"
		return schema, pick(g, []any{0.5, 2, -1.25}), cel.DoubleType
	case 2:
		schema["type"] = "boolean"
		return schema, g.percent(50), cel.BoolType
	case 3, 4, 5:
		schema["type"] = "string"
		set("maxLength", g.IntN(50))
		if g.percent(30) {
			schema["enum"] = []any{"a", "abc", "längstes"}
		}
		switch g.IntN(8) {
		case 0:
			schema["format"] = "date-time"
			return schema, "2024-02-29T23:58:07Z", cel.TimestampType
		case 1:
			schema["format"] = "duration"
			return schema, "90s", cel.DurationType
		case 2:
			schema["format"] = "byte"
			return schema, "YWJj", cel.BytesType
		}
		return schema, pick(g, []any{"", "a", "abc", "a,b", "héllo"}), cel.StringType
	case 6:
		item, value, ty := g.typedSchema(depth - 1)
		schema["type"], schema["items"] = "array", item
		set("maxItems", g.IntN(20))
		return schema, pick(g, []any{[]any{}, []any{value}, []any{value, value}}), cel.ListType(ty)
	case 7:
		item, value, ty := g.typedSchema(depth - 1)
		schema["type"], schema["additionalProperties"] = "object", item
		set("maxProperties", g.IntN(20))
		return schema, pick(g, []any{map[string]any{}, map[string]any{"a": value}}), cel.MapType(cel.StringType, ty)
	}
	item, value, ty := g.typedSchema(depth - 1)
	schema["type"], schema["items"] = "array", item
	set("maxItems", 10)
	set("minItems", 1)
	return schema, []any{value}, cel.ListType(ty)
}

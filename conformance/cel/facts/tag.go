package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
	mutated "k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

type tagged = map[string]any

// tag writes a value with its type.
func tag(value ref.Val) any {
	switch v := value.(type) {
	case nil:
		return tagged{"nil": true}
	case types.Null:
		return tagged{"null": nil}
	case types.Bool:
		return tagged{"bool": bool(v)}
	case types.Int:
		return tagged{"int": int64(v)}
	case types.Uint:
		return tagged{"uint": uint64(v)}
	case types.Double:
		return tagged{"double": double(float64(v))}
	case types.String:
		return tagged{"string": string(v)}
	case types.Bytes:
		return tagged{"bytes": base64.StdEncoding.EncodeToString(v)}
	case types.Timestamp:
		return tagged{"timestamp": v.Time.UTC().Format(time.RFC3339Nano)}
	case types.Duration:
		return tagged{"duration": v.Duration.String()}
	case *types.Type:
		return tagged{"type": v.TypeName()}
	case *types.Err:
		return tagged{"error": v.Error()}
	case *types.Optional:
		if !v.HasValue() {
			return tagged{"optional": nil}
		}
		return tagged{"optional": tag(v.GetValue())}
	case apiservercel.Quantity:
		return tagged{"kubernetes.Quantity": v.String()}
	case *apiservercel.Quantity:
		return tagged{"kubernetes.Quantity": v.String()}
	case apiservercel.URL:
		return tagged{"kubernetes.URL": v.String()}
	case apiservercel.IP:
		return tagged{"net.IP": v.String()}
	case apiservercel.CIDR:
		return tagged{"net.CIDR": v.String()}
	case apiservercel.Semver:
		return tagged{"kubernetes.Semver": v.String()}
	case apiservercel.Format:
		return tagged{"kubernetes.NamedFormat": v.Name}
	case *mutated.ObjectVal:
		// Objects inside become maps when they are taken out.
		fields, err := v.ConvertToNative(reflect.TypeFor[map[string]any]())
		check(err)
		return tagged{"object": tagged{"type": v.Type().TypeName(), "fields": tag(types.DefaultTypeAdapter.NativeToValue(fields))}}
	case *mutation.JSONPatchVal:
		patch := tagged{"op": v.Op, "path": v.Path, "from": v.From}
		if v.Val != nil {
			patch["value"] = tag(v.Val)
		}
		return tagged{"JSONPatch": patch}
	case traits.Lister:
		items := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			items = append(items, tag(it.Next()))
		}
		return tagged{"list": items}
	case traits.Mapper:
		return tagged{"map": entries(v)}
	}
	return tagged{"opaque": value.Type().TypeName()}
}

func entries(m traits.Mapper) []any {
	entries := []any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		entries = append(entries, []any{tag(key), tag(m.Get(key))})
	}
	name := func(i int) string {
		text, _ := json.Marshal(entries[i].([]any)[0])
		return string(text)
	}
	sort.Slice(entries, func(i, j int) bool { return name(i) < name(j) })
	return entries
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
	return d
}

// untag reads what tag writes.
func untag(value any) ref.Val {
	for tag, inner := range value.(tagged) {
		switch tag {
		case "null":
			return types.NullValue
		case "bool":
			return types.Bool(inner.(bool))
		case "int":
			n, err := inner.(json.Number).Int64()
			check(err)
			return types.Int(n)
		case "uint":
			var n uint64
			check(json.Unmarshal([]byte(inner.(json.Number)), &n))
			return types.Uint(n)
		case "double":
			switch inner {
			case "NaN":
				return types.Double(math.NaN())
			case "Infinity":
				return types.Double(math.Inf(1))
			case "-Infinity":
				return types.Double(math.Inf(-1))
			case "-0":
				return types.Double(math.Copysign(0, -1))
			}
			d, err := inner.(json.Number).Float64()
			check(err)
			return types.Double(d)
		case "string":
			return types.String(inner.(string))
		case "bytes":
			bytes, err := base64.StdEncoding.DecodeString(inner.(string))
			check(err)
			return types.Bytes(bytes)
		case "timestamp":
			t, err := time.Parse(time.RFC3339Nano, inner.(string))
			check(err)
			return types.Timestamp{Time: t}
		case "duration":
			d, err := time.ParseDuration(inner.(string))
			check(err)
			return types.Duration{Duration: d}
		case "type":
			return namedType(inner.(string))
		case "optional":
			if inner == nil {
				return types.OptionalNone
			}
			return types.OptionalOf(untag(inner))
		case "list":
			items := []ref.Val{}
			for _, item := range inner.([]any) {
				items = append(items, untag(item))
			}
			return types.NewRefValList(types.DefaultTypeAdapter, items)
		case "map":
			entries := map[ref.Val]ref.Val{}
			for _, entry := range inner.([]any) {
				entries[untag(entry.([]any)[0])] = untag(entry.([]any)[1])
			}
			return types.NewRefValMap(types.DefaultTypeAdapter, entries)
		}
		panic(fmt.Sprintf("unknown tag %s", tag))
	}
	panic("no tag")
}

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Of a hundred arguments, so many have another type than the function wants, or are hidden behind dyn().
const (
	wrongTypes = 3
	dynamic    = 6
	// Of a hundred expressions, so many have their text damaged.
	damaged = 15
	// Of a hundred facts, so many are rules of a schema with an object, and so many see an object without a schema.
	rules    = 10
	admitted = 25
)

// overload is a function with arguments as an expression calls it.
type overload struct {
	function string
	member   bool
	args     []*cel.Type
	result   *cel.Type
}

type local struct {
	name string
	ty   *cel.Type
}

type generator struct {
	*rand.Rand
	overloads []overload
	// authorization is overloads of the authorizer, which only admission has.
	base, authorization []overload
	// locals are the variables that may be mentioned.
	locals []local
}

// generate records count random facts, always the same ones for a seed.
func generate(seed uint64, count int, record func(*fact)) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, seed))}
	for _, o := range overloads() {
		if len(o.args) > 0 && strings.Contains(o.args[0].String(), "authorization") {
			g.authorization = append(g.authorization, o)
		} else {
			g.base = append(g.base, o)
		}
	}
	for i := range count {
		f := &fact{Name: fmt.Sprintf("random/%d/%d", seed, i), Group: "random/values", Env: "base"}
		g.overloads = g.base
		if g.percent(rules) {
			f.Group, f.Rule = "random/rules", g.rule()
			record(f)
			continue
		}
		if g.percent(admitted) {
			f.Env, f.Group = "admission", "random/admission"
			g.admission(f)
			record(f)
			continue
		}
		bounded := g.percent(50)
		g.locals = globals
		f.Expr = g.expr(g.resultType(), 1+g.IntN(4), "")
		if g.percent(damaged) {
			f.Group, f.Expr = "random/damaged", g.damage(f.Expr)
		}
		f.Vars = g.variables(f.Expr, bounded)
		record(f)
	}
}

// admission makes an expression over an object whose parts have no types, and the authorizer.
func (g *generator) admission(f *fact) {
	if g.percent(20) {
		g.overloads = append(append([]overload{}, g.authorization...), g.base...)
	}
	g.locals = nil
	for _, variable := range globals {
		if name, ok := strings.CutPrefix(variable.name, "self."); ok {
			g.locals = append(g.locals, local{"object." + name, variable.ty})
		}
	}
	f.Expr = strings.ReplaceAll(g.expr(g.resultType(), 1+g.IntN(4), ""), "self.", "object.")
	f.Vars = map[string]variable{"object": {Value: json.RawMessage(pick(g, selfValues))}}
	if strings.Contains(f.Expr, "authorizer") {
		f.Vars["authorizer"] = variable{Authz: &fakeAuthorizer{User: "alice", Allow: []string{"a", "get"}, Error: []string{"b"}}}
	}
}

func overloads() []overload {
	env := environment.MustBaseEnvSet(version.MajorMinor(1, 37)).StoredExpressionsEnv()
	out := []overload{}
	for name, function := range env.Functions() {
		if strings.Contains(name, "@") && name != "@in" || name == "__not_strictly_false__" {
			continue
		}
		for _, declared := range function.OverloadDecls() {
			out = append(out, overload{name, declared.IsMemberFunction(), declared.ArgTypes(), declared.ResultType()})
		}
	}
	key := func(o overload) string { return fmt.Sprint(o.function, o.member, o.args, o.result) }
	sort.Slice(out, func(i, j int) bool { return key(out[i]) < key(out[j]) })
	return out
}

func (g *generator) percent(n int) bool { return g.IntN(100) < n }

func pick[T any](g *generator, of []T) T { return of[g.IntN(len(of))] }

var simpleTypes = []*cel.Type{cel.BoolType, cel.IntType, cel.UintType, cel.DoubleType, cel.StringType, cel.BytesType, cel.TimestampType, cel.DurationType}

var opaqueTypes = []*cel.Type{types.NewOpaqueType("kubernetes.Quantity"), types.NewOpaqueType("kubernetes.URL"), types.NewOpaqueType("net.IP"),
	types.NewOpaqueType("net.CIDR"), types.NewOpaqueType("kubernetes.Semver"), types.NewOpaqueType("kubernetes.NamedFormat")}

func (g *generator) resultType() *cel.Type {
	if g.percent(30) {
		return cel.BoolType
	}
	return g.anyType(2)
}

func (g *generator) anyType(depth int) *cel.Type {
	switch n := g.IntN(20); {
	case depth > 0 && n < 3:
		return cel.ListType(g.anyType(depth - 1))
	case depth > 0 && n < 5:
		return cel.MapType(g.keyType(), g.anyType(depth-1))
	case depth > 0 && n < 6:
		return cel.OptionalType(g.anyType(depth - 1))
	case n < 7:
		return pick(g, opaqueTypes)
	case n < 8:
		return cel.NullType
	}
	return pick(g, simpleTypes)
}

func (g *generator) keyType() *cel.Type {
	return pick(g, []*cel.Type{cel.StringType, cel.StringType, cel.StringType, cel.IntType, cel.UintType, cel.BoolType})
}

// expr is a text of an expression of a type. Context is the function that it is an argument of.
func (g *generator) expr(ty *cel.Type, depth int, context string) string {
	if g.percent(wrongTypes) {
		ty = g.anyType(1)
	}
	if g.percent(dynamic) && depth > 0 {
		return "dyn(" + g.expr(ty, depth-1, context) + ")"
	}
	if depth <= 0 || g.percent(15) {
		return g.leaf(ty, context)
	}
	switch n := g.IntN(100); {
	case n < 6:
		return "(" + g.expr(cel.BoolType, depth-1, "") + " ? " + g.expr(ty, depth-1, context) + " : " + g.expr(ty, depth-1, context) + ")"
	case n < 25:
		if text, ok := g.macro(ty, depth); ok {
			return text
		}
	case n < 32:
		list := g.expr(cel.ListType(ty), depth-1, "")
		return list + pick(g, []string{"[0]", "[1]", "[-1]", "[5]", "[dyn(0)]", "[0u]", "[0.0]", "[1.5]"})
	case n < 37:
		return g.expr(cel.MapType(cel.StringType, ty), depth-1, "") + pick(g, []string{".a", ".b", "['a']", "['zz']", "[?'a'].orValue(" + g.leaf(ty, "") + ")", ".?a.value()"})
	}
	return g.call(ty, depth, context)
}

// call is a call of some overload that returns the type.
func (g *generator) call(ty *cel.Type, depth int, context string) string {
	for range 40 {
		o := pick(g, g.overloads)
		bound := map[string]*cel.Type{}
		if !unify(o.result, ty, bound) {
			continue
		}
		args := make([]string, len(o.args))
		for i, arg := range o.args {
			args[i] = g.expr(g.bind(arg, bound), depth-1, o.function)
		}
		return render(o, args)
	}
	return g.leaf(ty, context)
}

func unify(declared, want *cel.Type, bound map[string]*cel.Type) bool {
	if declared.Kind() == types.TypeParamKind {
		if was, ok := bound[declared.TypeName()]; ok {
			return was.IsExactType(want)
		}
		bound[declared.TypeName()] = want
		return true
	}
	if declared.Kind() != want.Kind() || declared.TypeName() != want.TypeName() || len(declared.Parameters()) != len(want.Parameters()) {
		return false
	}
	for i, parameter := range declared.Parameters() {
		if !unify(parameter, want.Parameters()[i], bound) {
			return false
		}
	}
	return true
}

// bind replaces type parameters, choosing those that are not bound yet.
func (g *generator) bind(ty *cel.Type, bound map[string]*cel.Type) *cel.Type {
	switch ty.Kind() {
	case types.TypeParamKind:
		if _, ok := bound[ty.TypeName()]; !ok {
			bound[ty.TypeName()] = g.anyType(1)
		}
		return bound[ty.TypeName()]
	case types.DynKind, types.AnyKind:
		return g.anyType(1)
	case types.ListKind:
		return cel.ListType(g.bind(ty.Parameters()[0], bound))
	case types.MapKind:
		return cel.MapType(g.bind(ty.Parameters()[0], bound), g.bind(ty.Parameters()[1], bound))
	case types.TypeKind:
		return ty
	case types.OpaqueKind:
		if ty.TypeName() == "optional_type" {
			return cel.OptionalType(g.bind(ty.Parameters()[0], bound))
		}
	}
	return ty
}

func render(o overload, args []string) string {
	name := o.function
	switch {
	case name == "_?_:_":
		return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")"
	case name == "_[_]":
		return args[0] + "[" + args[1] + "]"
	case name == "_[?_]":
		return args[0] + "[?" + args[1] + "]"
	case name == "_?._":
		return args[0] + ".?a"
	case name == "@in" || name == "_in_" || name == "in":
		return "(" + args[0] + " in " + args[1] + ")"
	case name == "!_" || name == "-_":
		return name[:1] + args[0]
	case strings.HasPrefix(name, "_") && len(args) == 2:
		return "(" + args[0] + " " + strings.Trim(name, "_") + " " + args[1] + ")"
	case o.member:
		return args[0] + "." + name + "(" + strings.Join(args[1:], ", ") + ")"
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

// macro is a comprehension or optional macro that returns the type.
func (g *generator) macro(ty *cel.Type, depth int) (string, bool) {
	item := g.anyType(1)
	inside := func(body *cel.Type, locals ...local) string {
		before := g.locals
		defer func() { g.locals = before }()
		g.locals = append(append([]local{}, before...), locals...)
		return g.expr(body, depth-1, "")
	}
	name := string(rune('p' + len(g.locals)%8))
	other := name + "2"
	switch ty.Kind() {
	case types.BoolKind:
		if g.percent(50) {
			macro := pick(g, []string{"all", "exists", "exists_one", "existsOne"})
			return g.expr(cel.ListType(item), depth-1, "") + "." + macro + "(" + name + ", " + inside(cel.BoolType, local{name, item}) + ")", true
		}
		if g.percent(30) {
			return "has(" + pick(g, []string{"self.s", "self.none", "self.o.a", "self.m.a", "self.any.x", "m.a", "d.a", "self.lo[0].v", "{'a': 1}.a", "self.nul", "o.a"}) + ")", true
		}
		macro := pick(g, []string{"all", "exists", "exists_one", "existsOne"})
		return g.expr(cel.MapType(cel.StringType, item), depth-1, "") + "." + macro + "(" + name + ", " + other + ", " + inside(cel.BoolType, local{name, cel.StringType}, local{other, item}) + ")", true
	case types.ListKind:
		want := ty.Parameters()[0]
		switch g.IntN(5) {
		case 0:
			return g.expr(ty, depth-1, "") + ".filter(" + name + ", " + inside(cel.BoolType, local{name, want}) + ")", true
		case 1:
			return g.expr(cel.ListType(item), depth-1, "") + ".map(" + name + ", " + inside(want, local{name, item}) + ")", true
		case 2:
			return g.expr(cel.ListType(item), depth-1, "") + ".map(" + name + ", " + inside(cel.BoolType, local{name, item}) + ", " + inside(want, local{name, item}) + ")", true
		case 3:
			return g.expr(ty, depth-1, "") + ".sortBy(" + name + ", " + inside(pick(g, simpleTypes), local{name, want}) + ")", true
		}
		from, key := cel.ListType(item), cel.IntType
		if g.percent(30) {
			from, key = cel.MapType(cel.StringType, item), cel.StringType
		}
		both := []local{{name, key}, {other, item}}
		filter := ""
		if g.percent(30) {
			filter = inside(cel.BoolType, both...) + ", "
		}
		return g.expr(from, depth-1, "") + ".transformList(" + name + ", " + other + ", " + filter + inside(want, both...) + ")", true
	case types.MapKind:
		key, value := ty.Parameters()[0], ty.Parameters()[1]
		if g.percent(40) {
			both := []local{{name, cel.IntType}, {other, item}}
			return g.expr(cel.ListType(item), depth-1, "") + ".transformMapEntry(" + name + ", " + other + ", {" + inside(key, both...) + ": " + inside(value, both...) + "})", true
		}
		both := []local{{name, key}, {other, item}}
		filter := ""
		if g.percent(30) {
			filter = inside(cel.BoolType, both...) + ", "
		}
		return g.expr(cel.MapType(key, item), depth-1, "") + ".transformMap(" + name + ", " + other + ", " + filter + inside(value, both...) + ")", true
	case types.OpaqueKind:
		if ty.TypeName() == "optional_type" {
			macro, body := "optMap", ty.Parameters()[0]
			if g.percent(40) {
				macro, body = "optFlatMap", ty
			}
			return g.expr(cel.OptionalType(item), depth-1, "") + "." + macro + "(" + name + ", " + inside(body, local{name, item}) + ")", true
		}
	}
	return "", false
}

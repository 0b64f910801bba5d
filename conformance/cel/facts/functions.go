package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type overloadFact struct {
	ID        string   `json:"id"`
	Library   string   `json:"library,omitempty"`
	Member    bool     `json:"member,omitempty"`
	NonStrict bool     `json:"non_strict,omitempty"`
	Args      []string `json:"args"`
	Result    string   `json:"result"`
}

type functionFact struct {
	Name      string         `json:"name"`
	Overloads []overloadFact `json:"overloads"`
}

type macroFact struct {
	Name     string `json:"name"`
	Receiver bool   `json:"receiver,omitempty"`
	Args     int    `json:"args,omitempty"`
}

// functions are all that expressions can call: those of the environment and, for policies that mutate, of patches.
func functions() map[string]any {
	env := environment.MustBaseEnvSet(served).StoredExpressionsEnv()
	all, err := env.Extend(library.JSONPatch())
	check(err)
	from := librariesOfOverloads()
	listed := []functionFact{}
	for _, name := range slices.Sorted(maps.Keys(all.Functions())) {
		f := functionFact{Name: name}
		for _, declared := range all.Functions()[name].OverloadDecls() {
			args := []string{}
			for _, arg := range declared.ArgTypes() {
				args = append(args, printed(arg))
			}
			f.Overloads = append(f.Overloads, overloadFact{declared.ID(), from[declared.ID()], declared.IsMemberFunction(), declared.IsNonStrict(), args, printed(declared.ResultType())})
		}
		slices.SortFunc(f.Overloads, func(a, b overloadFact) int { return cmp.Compare(a.ID, b.ID) })
		listed = append(listed, f)
	}
	macros := []macroFact{}
	for _, known := range env.Macros() {
		macros = append(macros, macroFact{known.Function(), known.IsReceiverStyle(), known.ArgCount()})
	}
	slices.SortFunc(macros, func(a, b macroFact) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Args, b.Args))
	})
	return map[string]any{"functions": listed, "macros": macros}
}

// librariesOfOverloads names the first library that has an overload.
func librariesOfOverloads() map[string]string {
	from := map[string]string{}
	note := func(name string, option cel.EnvOption) {
		env, err := cel.NewCustomEnv(option)
		check(err)
		for _, f := range env.Functions() {
			for _, declared := range f.OverloadDecls() {
				if _, known := from[declared.ID()]; !known {
					from[declared.ID()] = name
				}
			}
		}
	}
	note("cel standard library", cel.StdLib())
	note("cel optional types", cel.OptionalTypes())
	note("cel ext strings", ext.Strings(ext.StringsVersion(2)))
	note("cel ext sets", ext.Sets())
	note("cel ext two-variable comprehensions", ext.TwoVarComprehensions())
	note("cel ext lists", ext.Lists())
	for _, known := range library.KnownLibraries() {
		note(known.LibraryName(), cel.Lib(known))
	}
	return from
}

// printed is a type; parameters are in angle brackets.
func printed(of *types.Type) string {
	if of.Kind() == types.TypeParamKind {
		return "<" + of.TypeName() + ">"
	}
	if len(of.Parameters()) == 0 {
		return of.String()
	}
	inner := []string{}
	for _, parameter := range of.Parameters() {
		inner = append(inner, printed(parameter))
	}
	return of.TypeName() + "(" + strings.Join(inner, ", ") + ")"
}

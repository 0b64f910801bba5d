// Command bench measures cel-go on the expressions of a file: nanoseconds to compile one, nanoseconds to evaluate it, bytes that a
// compiled one keeps. It prints one JSON object a line.
//
//	bench expressions.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

const (
	budget = 150 * time.Millisecond
	kept   = 200
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var file struct {
		Object      map[string]any `json:"object"`
		Expressions []string       `json:"expressions"`
	}
	check(json.Unmarshal(text, &file))
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.Lists(ext.ListsVersion(3)),
		ext.TwoVarComprehensions(), cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true), cel.Variable("object", cel.DynType))
	check(err)
	compile := func(text string) cel.Program {
		ast, issues := env.Compile(text)
		check(issues.Err())
		program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTracking(nil), cel.CostLimit(1000000),
			cel.InterruptCheckFrequency(100))
		check(err)
		return program
	}
	input := map[string]any{"object": integers(file.Object)}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, text := range file.Expressions {
		compiled := measure(func() { compile(text) })
		program := compile(text)
		_, details, err := program.Eval(input)
		check(err)
		evaluated := measure(func() { _, _, _ = program.Eval(input) })
		check(out.Encode(map[string]any{"expr": text, "compile_ns": compiled, "eval_ns": evaluated, "cost": *details.ActualCost(), "bytes": size(func() any { return compile(text) })}))
	}
}

// integers makes whole numbers integers, as Kubernetes decodes JSON.
func integers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = integers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = integers(inner)
		}
	case float64:
		return int64(v)
	}
	return value
}

// measure returns the nanoseconds of one call, the best of five rounds.
func measure(call func()) float64 {
	best := 1e18
	for range 5 {
		count, start := 0, time.Now()
		for time.Since(start) < budget/5 {
			for range 8 {
				call()
			}
			count += 8
		}
		best = min(best, float64(time.Since(start).Nanoseconds())/float64(count))
	}
	return best
}

// size returns the bytes of the heap that one result keeps.
func size(makeOne func() any) uint64 {
	results := make([]any, kept)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range results {
		results[i] = makeOne()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(results)
	return (after.HeapAlloc - before.HeapAlloc) / kept
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Command tables prints the cases of Kubernetes' own tests of CEL as inputs for facts record, one JSON object a line. It copies the packages with
// their tests from the published modules to a folder, lets the tests note what they compile and validate, and runs them.
//
//	tables FOLDER
package main

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// The hooks are added to the copied packages. Their names end in .txt because they compile only there.
//
//go:embed hooks/*.txt
var hooks embed.FS

// change is a text of a package's files that the copy has otherwise.
type change struct{ old, new string }

type source struct {
	module, folder string
	changes        []change
	// hooks are files by the name they get.
	hooks map[string]string
}

var sources = []source{
	{
		"k8s.io/apiextensions-apiserver", "pkg/apiserver/schema/cel",
		[]change{
			{"func (s *Validator) Validate(ctx", "func (s *Validator) unnoted(ctx"},
			{"func Compile(s *schema.Structural, ", "func compileUnnoted(s *schema.Structural, "},
			{"compiledRules, err := Compile(", "compiledRules, err := compileUnnoted("},
		},
		map[string]string{"hook.go": "hooks/rules.go.txt"},
	},
	{
		"k8s.io/apiserver", "pkg/cel/library",
		[]change{{"env.Compile(expr)", "env.Compile(noted(expr))"}, {"env.Compile(testCase.expr)", "env.Compile(noted(testCase.expr))"}},
		map[string]string{"hook_in_test.go": "hooks/expressions.go.txt", "hook_out_test.go": "hooks/expressions_outside.go.txt"},
	},
}

func main() {
	root, err := filepath.Abs(os.Args[1])
	check(err)
	notes := filepath.Join(root, "notes.jsonl")
	check(os.RemoveAll(root))
	check(os.MkdirAll(root, 0o755))
	for _, file := range []string{"go.mod", "go.sum"} {
		copyFile(file, filepath.Join(root, file), nil)
	}
	for _, source := range sources {
		source.copy(filepath.Join(root, filepath.Base(source.folder)))
	}
	// The tests themselves may fail in their new place; what counts is what they note.
	tests := exec.Command("go", "test", "-mod=mod", "./...")
	tests.Dir = root
	tests.Env = append(os.Environ(), "CEL_NOTES="+notes)
	output, _ := tests.CombinedOutput()
	file, err := os.Open(notes)
	if err != nil {
		fmt.Fprintln(os.Stderr, string(output))
	}
	check(err)
	print(file)
}

func (s source) copy(to string) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", s.module)
	output, err := list.Output()
	check(err)
	from := filepath.Join(strings.TrimSpace(string(output)), s.folder)
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	check(err)
	check(os.MkdirAll(to, 0o755))
	for _, file := range files {
		copyFile(file, filepath.Join(to, filepath.Base(file)), s.changes)
	}
	for name, hook := range s.hooks {
		text, err := hooks.ReadFile(hook)
		check(err)
		check(os.WriteFile(filepath.Join(to, name), text, 0o644))
	}
}

func copyFile(from, to string, changes []change) {
	text, err := os.ReadFile(from)
	check(err)
	for _, change := range changes {
		text = bytes.ReplaceAll(text, []byte(change.old), []byte(change.new))
	}
	check(os.WriteFile(to, text, 0o644))
}

// print writes each note once, as an input of facts record.
func print(notes *os.File) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	seen := map[string]bool{}
	lines := bufio.NewScanner(notes)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if seen[lines.Text()] {
			continue
		}
		seen[lines.Text()] = true
		var note map[string]any
		check(json.Unmarshal(lines.Bytes(), &note))
		name := fmt.Sprintf("tables/%d", len(seen))
		fact := map[string]any{"name": name, "env": "base", "origin": "kubernetes"}
		if expr, ok := note["expr"].(string); ok {
			fact["group"], fact["expr"] = "tables/expressions", expr
			if strings.Contains(expr, "authorizer") {
				fact["env"], fact["vars"] = "admission", map[string]any{"authorizer": map[string]any{"authz": authorizer}}
			}
		} else {
			var rule struct {
				Schema *apiextensionsv1.JSONSchemaProps `json:"schema"`
				Root   bool                             `json:"root,omitempty"`
				Value  json.RawMessage                  `json:"value,omitempty"`
				Old    json.RawMessage                  `json:"old,omitempty"`
			}
			check(json.Unmarshal(lines.Bytes(), &rule))
			fact["group"], fact["rule"] = "tables/rules", rule
		}
		check(encoder.Encode(fact))
	}
	check(lines.Err())
}

var authorizer = map[string]any{"user": "alice", "allow": []string{"get", "list", "create", "validate"}, "deny": []string{"delete"}, "error": []string{"patch"}}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

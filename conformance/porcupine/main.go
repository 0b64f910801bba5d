// Reads operations on keys, one JSON document a line, and says whether an order of them explains every answer.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is one line. A revision of 0 is one that the answer does not tell.
type operation struct {
	Key string `json:"key"`
	// get, create, update, put (whatever is there) or delete.
	Call  string `json:"call"`
	Value uint64 `json:"value"`
	// The revision that an update or deletion expects.
	Expected *int64 `json:"expected"`
	// read, done, refused, conflicted or unknown.
	Answer   string `json:"answer"`
	Found    bool   `json:"found"`
	Seen     uint64 `json:"seen"`
	Revision int64  `json:"revision"`
	Began    int64  `json:"began"`
	Ended    int64  `json:"ended"`
}

// register is what a key holds.
type register struct {
	exists   bool
	value    uint64
	revision int64
}

func (r register) allows(o operation) bool {
	matches := o.Expected == nil || r.revision == *o.Expected || r.revision == 0
	switch o.Call {
	case "create":
		return !r.exists
	case "update", "delete":
		return r.exists && matches
	}
	return true
}

func (r register) conflicts(o operation) bool {
	switch o.Call {
	case "create":
		return r.exists
	case "put":
		// Another write came between every time that it was tried.
		return true
	}
	return r.exists && o.Expected != nil && r.revision != *o.Expected
}

func (r register) looksLike(o operation) (register, bool) {
	if !o.Found || !r.exists {
		return r, o.Found == r.exists
	}
	if r.value != o.Seen || (r.revision != 0 && r.revision != o.Revision) {
		return r, false
	}
	return register{true, o.Seen, o.Revision}, true
}

func (r register) after(o operation) register {
	if o.Call == "delete" {
		return register{}
	}
	return register{true, o.Value, o.Revision}
}

func step(state register, o operation) (bool, register) {
	switch o.Answer {
	case "read", "refused":
		seen, same := state.looksLike(o)
		return same && (o.Answer == "read" || !seen.allows(o)), seen
	case "conflicted":
		return state.conflicts(o), state
	case "done":
		forward := o.Revision == 0 || !state.exists || state.revision < o.Revision
		return forward && state.allows(o), state.after(o)
	}
	return true, state
}

func model() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, o := range history {
				key := o.Input.(operation).Key
				byKey[key] = append(byKey[key], o)
			}
			var parts [][]porcupine.Operation
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []interface{} { return []interface{}{register{}} },
		Step: func(state, input, _ interface{}) []interface{} {
			s, o := state.(register), input.(operation)
			if o.Answer == "unknown" {
				// It happened or it did not.
				states := []interface{}{s}
				if s.allows(o) {
					states = append(states, s.after(o))
				}
				return states
			}
			if possible, next := step(s, o); possible {
				return []interface{}{next}
			}
			return nil
		},
	}
	return model.ToModel()
}

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o operation
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return nil, err
		}
		ended := o.Ended
		if o.Answer == "unknown" {
			ended = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: len(history) % 64, Input: o, Call: o.Began, Return: ended})
	}
	return history, lines.Err()
}

func main() {
	history, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	result := porcupine.CheckOperationsTimeout(model(), history, 10*time.Minute)
	fmt.Printf("porcupine: %d operations: %s\n", len(history), result)
	if result != porcupine.Ok {
		os.Exit(1)
	}
}

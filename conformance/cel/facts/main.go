// Command facts asks Kubernetes' own CEL, from the published modules, what it answers, and prints facts of the form that the tests of crate
// cel play (CEL_FACTS), one JSON object a line.
//
//	facts record < inputs        fills in the outcomes of the facts it reads
//	facts outcomes < inputs      prints only their names and outcomes, and fails if one has no steady outcome
//	facts functions              prints every overload of every function, and every macro
//	facts generate SEED COUNT    makes random expressions and records them
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
)

func main() {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	record := func(f *fact) {
		if f.record() {
			check(encoder.Encode(f))
		}
	}
	switch {
	case len(os.Args) == 2 && os.Args[1] == "record":
		read(os.Stdin, record)
	case len(os.Args) == 2 && os.Args[1] == "outcomes":
		read(os.Stdin, func(f *fact) {
			if !f.record() {
				panic(f.Name + " has no steady outcome")
			}
			outcome := map[string]any{"outcome": f.Outcome}
			if f.OutcomeNew != nil {
				outcome[outcomeNew] = f.OutcomeNew
			}
			var line bytes.Buffer
			encoder := json.NewEncoder(&line)
			encoder.SetEscapeHTML(false)
			check(encoder.Encode(outcome))
			fmt.Fprintf(out, "{\"name\":%q,%s", f.Name, line.Bytes()[1:])
		})
	case len(os.Args) == 2 && os.Args[1] == "functions":
		encoder.SetIndent("", " ")
		check(encoder.Encode(functions()))
	case len(os.Args) == 4 && os.Args[1] == "generate":
		seed, err := strconv.ParseUint(os.Args[2], 10, 64)
		check(err)
		count, err := strconv.Atoi(os.Args[3])
		check(err)
		generate(seed, count, record)
	default:
		fmt.Fprintln(os.Stderr, "usage: facts record < inputs | facts outcomes < inputs | facts functions | facts generate SEED COUNT")
		os.Exit(2)
	}
}

func read(from io.Reader, record func(*fact)) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			f := &fact{}
			decoder := json.NewDecoder(bytes.NewReader(line))
			decoder.UseNumber()
			check(decoder.Decode(f))
			record(f)
		}
		if err == io.EOF {
			return
		}
		check(err)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

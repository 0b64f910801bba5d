// Command x509 writes what Go's encoding/pem and crypto/x509 answer about generated PEM texts, certificates and chains, from
// which the tests of crates/gox509 are played:
//
//	go run . pem 6000 | gzip -9 > ../../crates/gox509/testdata/pem.jsonl.gz
//	go run . chains 420 | gzip -9 > ../../crates/gox509/testdata/chains.jsonl.gz
//
// The second argument is how many texts, or worlds of certificates, are generated; a third one is the seed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
)

func main() {
	count, seed := 100, uint64(1)
	if len(os.Args) > 2 {
		count, _ = strconv.Atoi(os.Args[2])
	}
	if len(os.Args) > 3 {
		seed, _ = strconv.ParseUint(os.Args[3], 10, 64)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	random := rand.New(rand.NewPCG(seed, 30))
	switch {
	case len(os.Args) > 1 && os.Args[1] == "pem":
		for range count {
			check(lines.Encode(pemFact(random)))
		}
	case len(os.Args) > 1 && os.Args[1] == "chains":
		keys := newKeys()
		for number := range count {
			check(lines.Encode(newWorld(random, keys, number).facts()))
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: x509 pem|chains [count [seed]]")
		os.Exit(2)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func pick[T any](random *rand.Rand, items ...T) T {
	return items[random.IntN(len(items))]
}

// one answers true once in n times.
func one(random *rand.Rand, n int) bool {
	return random.IntN(n) == 0
}

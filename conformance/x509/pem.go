package main

import (
	"encoding/hex"
	"encoding/pem"
	"math/rand/v2"
	"strings"
)

// pieces of which texts are put together: whole lines, broken lines, and what is between them.
var pieces = []string{
	"-----BEGIN A-----\n", "-----BEGIN A-----\n", "-----BEGIN A-----\n", "-----BEGIN A-----\n", "-----BEGIN B-----\n",
	"-----BEGIN A-----\r\n", "-----BEGIN A----- \t\n", "-----BEGIN A---\n", "-----BEGIN A-----x\n", " -----BEGIN A-----\n",
	"-----BEGIN A-----", "-----BEGIN -----\n", "-----BEGIN A: b-----\n", "-----BEGIN A------\n", "-----BEGIN A-----\r",
	"-----END A-----\n", "-----END A-----\n", "-----END A-----\n", "-----END A-----\n", "-----END A-----\n", "-----END A-----\n",
	"-----END B-----\n", "-----END A-----\r\n", "-----END A----- \t\n", "-----END A-----", "-----END A-----x\n", "-----END A---\n",
	" -----END A-----\n", "-----END -----\n", "-----END A------\n", "\n-----END A-----\n",
	"YWJj\n", "YWJj\n", "YWJj\n", "YWJj", "YQ==\n", "YWI=\n", "YQ\n", "YWI\n", "Y\n", "YR==\n", "YQ=\n", "YQ==YQ==\n", "YQ=\n=\n",
	"=\n", "Y W J j\n", "\tYWJj\t\n", "YW-j\n", "YW_j\n", "YWJj\r\n", "YW\rJj\n", "YWJj\x00\n", "YWJj\xff\n", "é\n", "YWJj\v\n",
	"Key: value\n", "Key: value\n", "Proc-Type: 4,ENCRYPTED\n", ":\n", "a:b:c\r\n", "Key: value", " Key : value \n", "YWJj:YWJj\n",
	"\n", "\n", "\r\n", " \n", "text before\n", "-----\n", "----------\n", "-----BEGIN \n", "-----END \n", "\x00",
}

type pemAnswer struct {
	Text   string     `json:"t"`
	Blocks [][]string `json:"b"`
}

func pemFact(random *rand.Rand) pemAnswer {
	var text strings.Builder
	if one(random, 3) {
		// A block that is nearly right, so that small differences matter.
		parts := []string{"-----BEGIN A-----\n", "YWJj\n", "-----END A-----\n", "-----BEGIN A-----\n", "YQ==\n", "-----END A-----\n"}
		for range 1 + random.IntN(3) {
			parts[random.IntN(len(parts))] = pick(random, pieces...)
		}
		text.WriteString(strings.Join(parts, ""))
	} else {
		for range 2 + random.IntN(11) {
			text.WriteString(pick(random, pieces...))
		}
	}
	fact := pemAnswer{Text: hex.EncodeToString([]byte(text.String())), Blocks: [][]string{}}
	rest := []byte(text.String())
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return fact
		}
		headers := ""
		if len(block.Headers) > 0 {
			headers = "headers"
		}
		fact.Blocks = append(fact.Blocks, []string{block.Type, headers, hex.EncodeToString(block.Bytes)})
	}
}

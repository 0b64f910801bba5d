// Command gosort prints in which order sort.Slice leaves lists with equal keys, and with keys that have no order.
package main

import (
	"fmt"
	"math"
	"sort"
)

func main() {
	fmt.Println("# length, different keys (0: ascending, 1: descending), per cent NaN, FNV of the order; printed by conformance/cmd/gosort")
	for _, length := range []uint64{1, 2, 3, 8, 12, 13, 20, 49, 50, 51, 64, 100, 333, 1000} {
		for _, kinds := range []uint64{0, 1, 2, 3, 10, 1000000} {
			for _, unordered := range []uint64{0, 3, 30, 90} {
				random := length*31 + kinds
				next := func() uint64 {
					random = random*6364136223846793005 + 1442695040888963407
					return random >> 33
				}
				keys := make([]float64, length)
				order := make([]int, length)
				for at := range keys {
					order[at] = at
					switch isNaN := next()%100 < unordered; {
					case isNaN:
						keys[at] = math.NaN()
					case kinds == 0:
						keys[at] = float64(at)
					case kinds == 1:
						keys[at] = -float64(at)
					default:
						keys[at] = float64(next() % kinds)
					}
				}
				sort.Slice(order, func(i, j int) bool { return keys[order[i]] < keys[order[j]] })
				hash := uint64(14695981039346656037)
				for _, at := range order {
					hash = (hash ^ uint64(at)) * 1099511628211
				}
				fmt.Println(length, kinds, unordered, hash)
			}
		}
	}
}

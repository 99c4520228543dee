// Prints the classes of characters that regular expressions of Go can name, for
// src/mooring/cel/data/unicode_classes.tsv:
//
//	go run ./tools/unicode_classes > classes.tsv
package main

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
)

func text(table *unicode.RangeTable) string {
	if table == nil {
		return ""
	}
	type pair struct{ low, high rune }
	var pairs []pair
	add := func(low, high, stride rune) {
		if stride == 1 {
			pairs = append(pairs, pair{low, high})
			return
		}
		for code := low; code <= high; code += stride {
			pairs = append(pairs, pair{code, code})
		}
	}
	for _, r := range table.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range table.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	var words []string
	last := rune(0)
	for at := 0; at < len(pairs); at++ {
		low, high := pairs[at].low, pairs[at].high
		for at+1 < len(pairs) && pairs[at+1].low == high+1 {
			at++
			high = pairs[at].high
		}
		word := fmt.Sprintf("%x", low-last)
		if high > low {
			word += fmt.Sprintf("+%x", high-low)
		}
		words = append(words, word)
		last = high
	}
	return strings.Join(words, " ")
}

func main() {
	show := func(kind string, tables, folds map[string]*unicode.RangeTable) {
		var names []string
		for name := range tables {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Printf("%s\t%s\t%s\t%s\n", kind, name, text(tables[name]), text(folds[name]))
		}
	}
	show("category", unicode.Categories, unicode.FoldCategory)
	show("script", unicode.Scripts, unicode.FoldScript)
	var names []string
	for name := range unicode.CategoryAliases {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("alias\t%s\t%s\t\n", name, unicode.CategoryAliases[name])
	}
}

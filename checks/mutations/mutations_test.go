package main

import (
	"strings"
	"testing"
)

// A change of the code, of a test's name or of a document must not leave a mutation behind.
func TestEveryMutationFitsTheTree(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, m := range all() {
		if err := m.check(root); err != nil {
			t.Errorf("%s: %v", m.promise, err)
		}
		if patch := m.file + m.old + m.new + m.test; seen[patch] {
			t.Errorf("%s: the same patch twice: %q", m.promise, m.old)
		} else {
			seen[patch] = true
		}
	}
}

// Each document that makes promises has mutations.
func TestEveryDocumentOfPromisesHasMutations(t *testing.T) {
	t.Parallel()
	const fewest = 80
	if n := len(all()); n < fewest {
		t.Errorf("%d mutations, want at least %d", n, fewest)
	}
	of := make(map[string]int)
	for _, m := range all() {
		of[m.in]++
	}
	for _, document := range []string{"README.md", "docs/seeds.md", "docs/reliability.md"} {
		if of[document] == 0 {
			t.Errorf("no mutation is about a promise of %s", document)
		}
	}
}

func TestAPatchMustApplyOnce(t *testing.T) {
	t.Parallel()
	m := mutation{file: "a.go", old: "IsDue()", new: "nil"}
	if got, err := m.apply("x(IsDue())"); got != "x(nil)" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "IsDue() IsDue()"} {
		if _, err := m.apply(text); err == nil || !strings.Contains(err.Error(), "not once") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := (mutation{old: "a", new: "a"}).apply("a"); err == nil {
		t.Error("a patch that changes nothing is accepted")
	}
}

func TestShardsHaveEveryMutationOnce(t *testing.T) {
	t.Parallel()
	times := make(map[string]int)
	from := []mutation{{promise: "a"}, {promise: "b"}, {promise: "c"}, {promise: "d"}, {promise: "e"}}
	for _, shard := range []string{"1/2", "2/2"} {
		part, err := choose(from, "", shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range part {
			times[m.promise]++
		}
	}
	for _, m := range from {
		if times[m.promise] != 1 {
			t.Errorf("%s is in %d shards", m.promise, times[m.promise])
		}
	}
	for _, shard := range []string{"0/2", "3/2", "1", "a/b", ""} {
		if _, err := choose(from, "", shard); err == nil {
			t.Errorf("the shard %q is accepted", shard)
		}
	}
	if _, err := choose(from, "no such mutation", "1/1"); err == nil {
		t.Error("a pattern that matches nothing is accepted")
	}
}

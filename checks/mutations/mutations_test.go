package mutations_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	mutate = flag.Bool("mutate", false, "remove each safeguard from a copy of the tree, and see its test fail")
	shard  = flag.String("shard", "1/1", "only part `i/n` of the mutations")
	limit  = flag.Duration("limit", 2*time.Minute, "with -mutate: the longest that a test of the tree may take")
)

// A change of the code, of a test's name or of a document must not leave a mutation behind. With
// -mutate, no safeguard can be removed without a failing test. A pattern chooses mutations by file,
// promise or test:
//
//	go test ./mutations -mutate -timeout 0 -v -run 'TestEachMutation/claim.sql'
func TestEachMutation(t *testing.T) {
	root := findRoot(t)
	part, err := partOf(all(), *shard)
	if err != nil {
		t.Fatal(err)
	}
	var chosen []mutation
	for _, m := range part {
		t.Run(m.name(), func(t *testing.T) {
			if err := m.check(root); err != nil {
				t.Fatal(err)
			}
			chosen = append(chosen, m)
		})
	}
	if !*mutate {
		return
	}
	if len(chosen) == 0 {
		t.Fatal("no mutation to try")
	}
	c := newCopy(t, root)
	c.baseline(t, chosen)
	for _, m := range chosen {
		t.Run(m.name()+" removed", func(t *testing.T) {
			v, text := c.mutate(t, m)
			t.Logf("%s\n%s", v, text)
			if v != failed && v != timedOut {
				t.Errorf("without this line of %s, the result of %s is %q, not a failure:\n%s", m.file, m.test, v, m.old)
			}
		})
	}
}

// partOf returns the i-th of n parts of mutations, for a text i/n.
func partOf(from []mutation, text string) ([]mutation, error) {
	before, after, _ := strings.Cut(text, "/")
	i, errI := strconv.Atoi(before)
	n, errN := strconv.Atoi(after)
	if errI != nil || errN != nil || i < 1 || i > n {
		return nil, fmt.Errorf("shard %q is not i/n with 1 <= i <= n", text)
	}
	var part []mutation
	for at := i - 1; at < len(from); at += n {
		part = append(part, from[at])
	}
	return part, nil
}

func TestNoPatchIsListedTwice(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, m := range all() {
		patch := m.file + m.old + m.new + m.test
		if seen[patch] {
			t.Errorf("%s: the same patch twice: %q", m.promise, m.old)
		}
		seen[patch] = true
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
		part, err := partOf(from, shard)
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
		if _, err := partOf(from, shard); err == nil {
			t.Errorf("the shard %q is accepted", shard)
		}
	}
}

// Command mutations removes one safeguard after another from a copy of the tree, and runs for each
// the test that must fail without it. It fails if such a test passes.
//
//	cd checks && GOWORK=off go run ./mutations -run 'claim'
//
// The lists are the files list_*.go: for each safeguard the promise that it keeps, in the words of
// the document that makes the promise. The tests of this package only prove that each patch applies,
// that each named test exists, and that each promise is in its document.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

// errGreen reports that tests do not hold what they are named for.
var errGreen = errors.New("some safeguards can be removed without a failing test")

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutations", flag.ContinueOnError)
	pattern := flags.String("run", "", "only mutations whose promise, file or test matches this `regexp`")
	part := flags.String("shard", "1/1", "only part `i/n` of the mutations")
	limit := flags.Duration("timeout", 2*time.Minute, "the longest that a test may take")
	verbose := flags.Bool("v", false, "print what each test printed, too")
	list := flags.Bool("list", false, "print the mutations, and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(all(), *pattern, *part)
	if err != nil {
		return err
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%s: %s\n\t%s: %s\n", m.in, m.promise, m.file, m.test)
		}
		return nil
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	c, err := newCopy(ctx, root)
	if err != nil {
		return err
	}
	defer c.remove()
	printed := io.Discard
	if *verbose {
		printed = out
	}
	return try(ctx, c, chosen, *limit, out, printed)
}

// choose returns the mutations that match a pattern, and of these the i-th of n parts.
func choose(from []mutation, pattern, part string) ([]mutation, error) {
	matcher, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	i, n, ok := parseShard(part)
	if !ok {
		return nil, fmt.Errorf("shard %q is not i/n with 1 <= i <= n", part)
	}
	var chosen []mutation
	matching := 0
	for _, m := range from {
		if !matcher.MatchString(m.in + ": " + m.promise + "\n" + m.file + "\n" + m.test) {
			continue
		}
		if matching%n == i-1 {
			chosen = append(chosen, m)
		}
		matching++
	}
	if matching == 0 {
		return nil, fmt.Errorf("no mutation matches %q", pattern)
	}
	return chosen, nil
}

func parseShard(text string) (i, n int, ok bool) {
	before, after, _ := strings.Cut(text, "/")
	i, errI := strconv.Atoi(before)
	n, errN := strconv.Atoi(after)
	return i, n, errI == nil && errN == nil && 1 <= i && i <= n
}

// try runs the tests once on the unchanged copy, because a test that always fails proves nothing.
// Then it removes one safeguard after another, and writes a row of a table for each to out, and what
// the test printed to printed.
func try(ctx context.Context, c *tree, mutations []mutation, limit time.Duration, out, printed io.Writer) error {
	if err := c.baseline(ctx, mutations, limit); err != nil {
		return err
	}
	fmt.Fprintln(out, "| result | time | promise | file | test |\n| --- | --- | --- | --- | --- |")
	green := 0
	var errs []error
	for _, m := range mutations {
		began := time.Now()
		v, text, err := c.mutate(ctx, m, limit)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", m.in, m.promise, err))
		}
		if v == survived {
			green++
		}
		fmt.Fprintf(out, "| %s | %.1f s | %s: %s | %s | %s |\n", v, time.Since(began).Seconds(), m.in, m.promise, m.file, m.test)
		fmt.Fprintln(printed, text)
	}
	fmt.Fprintf(out, "\n%d mutations, %d not noticed\n", len(mutations), green)
	if green > 0 {
		errs = append(errs, errGreen)
	}
	return errors.Join(errs...)
}

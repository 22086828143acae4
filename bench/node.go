package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// oldestNode is the oldest release of Node.js that the packages below run on.
const oldestNode = 22

// nodePeer is a row of a queue for Node.js, whose script is node/<queue>.mjs.
type nodePeer struct {
	queue    string
	succeeds bool // each job stores its successor
	grouped  bool // all jobs are of one group, with a limit over all workers
	contract string
	lacks    string
	template string // of a database with a backlog
	counts   string // a query: how many jobs have ended, and how many have a successor; $1 is how many there were
	slow     bool
}

// name is that of the row.
func (p nodePeer) name() string {
	switch {
	case p.succeeds:
		return p.queue + "-successor"
	case p.grouped:
		return p.queue + "-group"
	}
	return p.queue
}

func nodePeers() []nodePeer {
	const (
		graphile = "SELECT $1 - count(*) FILTER (WHERE run_at <= now()), count(*) FILTER (WHERE run_at > now() AND key IS NOT NULL) FROM graphile_worker.jobs"
		boss     = "SELECT count(*) FILTER (WHERE state = 'completed'), count(DISTINCT singleton_key) FILTER (WHERE start_after > now()) FROM pgboss.job WHERE $1 > 0"
	)
	return []nodePeer{
		{
			queue: "graphile-worker", succeeds: true, template: "graphile_backlog", counts: graphile, slow: true,
			contract: "one process: 24 jobs at once; a task adds its successor with a job key",
			lacks:    "one transaction for both, history; users, zones, keys for ever, a fence",
		},
		{
			queue: "pg-boss", succeeds: true, template: "boss_successor_backlog", counts: boss,
			contract: "one process: 4 workers of 5,000 jobs; a handler inserts 5,000 successors with singleton keys",
			lacks:    "one transaction for both, an outcome for each job; users, zones, keys for ever, a fence",
		},
		{
			queue: "graphile-worker", template: "graphile_backlog", counts: graphile,
			contract: "no successor; one process: 24 jobs at once, local queue of 500, completions in batches; deletes the job",
			lacks:    "a successor, history; users, zones, keys for ever, a fence",
		},
		{
			queue: "pg-boss", template: "boss_backlog", counts: boss,
			contract: "no successor; one process: 4 workers of 5,000 jobs; a batch succeeds or fails as one; keeps the job",
			lacks:    "a successor, an outcome for each job; users, zones, keys for ever, a fence",
		},
		{
			queue: "pg-boss", grouped: true, template: "boss_group_backlog", counts: boss,
			contract: "the same; all jobs are of one group with a groupConcurrency above the load",
			lacks:    "a rate; a successor, an outcome for each job; users, zones, keys for ever, a fence",
		},
	}
}

// nodeContestants are the peers that can be run here, with or without successors. The
// others are left out, with the reason.
func (b *bench) nodeContestants(succeed bool) []contestant {
	var list []contestant
	for _, p := range nodePeers() {
		if p.succeeds != succeed || !b.chosen("throughput", p.name()) {
			continue
		}
		version, err := nodePackage(b.nodeDir, p.queue)
		if err != nil {
			b.leaveOut("throughput", p.name(), err.Error())
			continue
		}
		b.report.Versions[p.queue] = version
		list = append(list, contestant{
			name: p.name(), contract: p.contract, lacks: p.lacks, template: p.template, slow: p.slow, apart: true,
			fill: func(ctx context.Context, db database) error {
				_, err := p.command(b.nodeDir, "fill", db, b.Events, 0).work(ctx, nil)
				return err
			},
			run: func(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
				t, err := p.command(b.nodeDir, "work", db, want, limit).work(ctx, db.gauge)
				if err == nil && t.done == 0 {
					err = errNothing
				}
				return t, err
			},
			check: func(ctx context.Context, db database, done int) error { return p.check(ctx, db, b.Events, done) },
		})
	}
	return list
}

// check makes sure that what was counted has ended, and that each job that has ended has a
// successor. There may be more successors, since none is stored in the transaction that ends a job.
func (p nodePeer) check(ctx context.Context, db database, jobs, done int) error {
	var ended, followed int
	if err := db.pool.QueryRow(ctx, p.counts, jobs).Scan(&ended, &followed); err != nil {
		return err
	}
	if ended < done {
		return fmt.Errorf("counted %d jobs, but %d have ended", done, ended)
	}
	if p.succeeds && followed < ended || !p.succeeds && followed > 0 {
		return fmt.Errorf("%d jobs have ended, and %d have a successor", ended, followed)
	}
	return nil
}

// nodePackage returns the version of an installed package, or why it cannot be used.
func nodePackage(dir, name string) (string, error) {
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "", errors.New("there is no node on the PATH")
	}
	release := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(release, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestNode {
		return "", fmt.Errorf("node is %s, and it needs %d or later", release, oldestNode)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", name, "package.json"))
	if err != nil {
		return "", errors.New("it is not installed: run npm ci in bench/node")
	}
	var about struct{ Version string }
	if err := json.Unmarshal(text, &about); err != nil {
		return "", err
	}
	return about.Version + " on node " + release, nil
}

// script is a peer's program.
type script struct {
	dir  string
	args []string
}

func (p nodePeer) command(dir, what string, db database, jobs int, limit time.Duration) script {
	kind := "alone"
	if p.succeeds {
		kind = "successor"
	} else if p.grouped {
		kind = "group"
	}
	return script{dir, []string{p.queue + ".mjs", what, kind, db.url, strconv.Itoa(jobs), strconv.FormatInt(limit.Milliseconds(), 10)}}
}

// statement is a line of a script. The first one says that the work begins, and the last one what
// was done.
type statement struct {
	Done    int
	Seconds float64
	CPU     float64 // seconds
}

// work runs a script. It measures what the server uses meanwhile if there is a gauge.
func (s script) work(ctx context.Context, g *gauge) (t tally, err error) {
	command := exec.CommandContext(ctx, "node", s.args...)
	command.Dir = s.dir
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return t, err
	}
	if err := command.Start(); err != nil {
		return t, err
	}
	t, err = s.listen(ctx, json.NewDecoder(out), g)
	if ended := errors.Join(err, command.Wait()); ended != nil {
		return t, fmt.Errorf("node %s: %w\n%s", s.args[0], ended, stderr.String())
	}
	return t, nil
}

func (s script) listen(ctx context.Context, lines *json.Decoder, g *gauge) (t tally, err error) {
	var begins, ends statement
	if err := lines.Decode(&begins); err != nil {
		return t, fmt.Errorf("did not begin: %w", err)
	}
	var before, after usage
	if g != nil {
		if before, err = g.read(ctx); err != nil {
			return t, err
		}
	}
	if err := lines.Decode(&ends); err != nil {
		return t, fmt.Errorf("did not end: %w", err)
	}
	if g != nil {
		if after, err = g.read(ctx); err != nil {
			return t, err
		}
	}
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	t = tally{done: ends.Done, took: seconds(ends.Seconds), spent: after.since(before)}
	t.spent.program, t.spent.allocated = seconds(ends.CPU), 0
	return t, nil
}

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

// nodePeer is a queue for Node.js; node/<name>.mjs works with it.
type nodePeer struct{ name, contract string }

func nodePeers() []nodePeer {
	return []nodePeer{
		{"graphile-worker", "one process: 24 jobs at once, local queue of 500, completions in batches; deletes the job; writes no successor"},
		{"pg-boss", "one process: 4 workers of 5,000 jobs; a batch succeeds or fails as one; keeps the job; writes no successor"},
	}
}

// nodeContestants are the peers that can be run here. The others are left out, with
// the reason.
func (b *bench) nodeContestants() []contestant {
	var list []contestant
	for _, p := range nodePeers() {
		if !b.chosen("throughput", p.name) {
			continue
		}
		version, err := nodePackage(b.nodeDir, p.name)
		if err != nil {
			b.leaveOut("throughput", p.name, err.Error())
			continue
		}
		b.report.Versions[p.name] = version
		script := func(ctx context.Context, args ...string) (tally, error) {
			return runNode(ctx, b.nodeDir, p.name, args...)
		}
		list = append(list, contestant{
			name: p.name, contract: p.contract, template: p.name + "_backlog",
			fill: func(ctx context.Context, db database) error {
				_, err := script(ctx, "fill", db.url, strconv.Itoa(b.Events))
				return err
			},
			run: func(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
				return script(ctx, "work", db.url, strconv.Itoa(want), strconv.FormatInt(limit.Milliseconds(), 10))
			},
		})
	}
	return list
}

// nodePackage returns the version of an installed package, or why it cannot be
// used.
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

// runNode runs a peer's script, which writes what it has done as JSON.
func runNode(ctx context.Context, dir, name string, args ...string) (tally, error) {
	command := exec.CommandContext(ctx, "node", append([]string{name + ".mjs"}, args...)...)
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return tally{}, fmt.Errorf("node %s.mjs: %w\n%s", name, err, stderr.String())
	}
	var said struct {
		Done    int
		Seconds float64
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return tally{}, fmt.Errorf("node %s.mjs said %q: %w", name, out, err)
	}
	if args[0] == "work" && said.Done == 0 {
		return tally{}, errNothing
	}
	return tally{said.Done, time.Duration(said.Seconds * float64(time.Second))}, nil
}

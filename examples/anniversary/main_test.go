package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// The test binary runs the program itself on request, so that the tests cover a process
// with signals and an exit code.
func TestMain(m *testing.M) {
	if os.Getenv("ANNIVERSARY") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

func TestProgramPlansAndStops(t *testing.T) {
	t.Parallel()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), "ANNIVERSARY=1", "DATABASE_URL="+pgtest.URL(t))
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())

	lines := bufio.NewReader(out)
	birthday, err := lines.ReadString('\n')
	require.NoError(t, err)
	service, err := lines.ReadString('\n')
	require.NoError(t, err)

	require.Regexp(t, `^BIRTHDAY of Grace Hopper at \d{4}-12-09T09:00:00 America/New_York\n$`, birthday)
	require.Regexp(t, `^SERVICE of Grace Hopper at \d{4}-02-2[89]T09:00:00 America/New_York\n$`, service)
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	require.NoError(t, program.Wait(), "it drains and exits with success")
}

func TestServiceIsDeliveredOnItsDay(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.Pool(t))
	require.NoError(t, err)
	tokyo, err := calendar.LoadTimezone("Asia/Tokyo")
	require.NoError(t, err)
	due := tokyo.WallTime(time.Now().Add(3 * time.Second)) // late enough to store it before
	out, printed := io.Pipe()
	scheduler, err := newScheduler(store, service{at: due.Clock}, printed)
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		defer printed.Close()
		ended <- scheduler.Run(ctx)
	}()

	hired := time.Date(2000, due.Date.Month, due.Date.Day, 0, 0, 0, 0, time.UTC) // a leap year has every day
	enrolment, err := scheduler.CreateUser(t.Context(), almanac.Profile{
		FirstName: "Grace", LastName: "Hopper", DateOfBirth: hired.AddDate(0, 0, -100).Format(time.DateOnly), Timezone: "Asia/Tokyo",
		Attributes: json.RawMessage(`{"hired": "` + hired.Format(time.DateOnly) + `"}`),
	})
	require.NoError(t, err)
	require.Len(t, enrolment.Events, 2)
	planned := enrolment.Events[1]
	require.Equal(t, "SERVICE", planned.Type)
	require.Equal(t, due, planned.Wall)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	stop()
	require.NoError(t, <-ended)

	require.Contains(t, line, due.String()+" Asia/Tokyo ")
	_, payload, _ := strings.Cut(line, "Asia/Tokyo ")
	require.JSONEq(t, fmt.Sprintf(`{"message": "Thank you, Grace", "year": "%04d"}`, due.Date.Year), payload)
	done, err := store.Event(t.Context(), planned.ID)
	require.NoError(t, err)
	require.Equal(t, almanac.Completed, done.Status)
	require.False(t, done.ExecutedAt.Before(done.Due), "never early")
	found, err := store.Find(t.Context(), almanac.And{almanac.OfType("SERVICE"), almanac.InStatus(almanac.Pending)}, almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 1, "and so it goes on")
	require.Equal(t, fmt.Sprintf("%04d", due.Date.Year+1), found.Items[0].OccurrenceKey)
}

func TestServiceIsForEmployeesOnly(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.Pool(t))
	require.NoError(t, err)
	scheduler, err := newScheduler(store, service{}, io.Discard)
	require.NoError(t, err)
	profile := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}

	guest, err := scheduler.CreateUser(t.Context(), profile)
	require.NoError(t, err)
	require.Len(t, guest.Events, 1, "her birthday")
	profile.Attributes = json.RawMessage(`{"hired": "yesterday"}`)
	_, err = scheduler.CreateUser(t.Context(), profile)
	require.ErrorContains(t, err, `"yesterday" is not a date`)

	hired, err := scheduler.UpdateUser(t.Context(), guest.User.ID, almanac.ProfileChange{Merge: json.RawMessage(`{"hired": "2020-02-29"}`)})
	require.NoError(t, err)
	require.Len(t, hired.Added, 1)
	require.Equal(t, "SERVICE", hired.Added[0].Type)
}

// A custom handler takes fewer than thirty lines of code.
func TestHandlerIsShort(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "main.go", source, parser.ParseComments)
	require.NoError(t, err)

	lines, methods := 0, 0
	for _, decl := range file.Decls {
		text := source[set.Position(decl.Pos()).Offset:set.Position(decl.End()).Offset]
		if f, ok := decl.(*ast.FuncDecl); ok {
			if f.Recv == nil {
				continue
			}
			methods++
		} else if !bytes.HasPrefix(text, []byte("type service ")) {
			continue
		}
		lines += 1 + bytes.Count(text, []byte("\n"))
	}

	require.Equal(t, 4, methods, "type, next occurrence, payload, channel")
	require.Less(t, lines, 30)
	require.Greater(t, lines, methods, "what is counted is the handler")
	t.Logf("the handler has %d lines", lines)
}

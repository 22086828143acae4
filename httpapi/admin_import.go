package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/almanac-go/almanac/internal/jsonb"
)

// importAnswer counts each line once: a line that was stored before an error is after NextLine, and counts
// as unchanged when it is sent again.
type importAnswer struct {
	DryRun       bool          `json:"dryRun"`
	Lines        int           `json:"lines"` // that were processed, empty ones included
	Created      int           `json:"created"`
	Edited       int           `json:"edited"`
	Unchanged    int           `json:"unchanged"`
	Refused      []refusedLine `json:"refused"` // the first ones
	RefusedLines int           `json:"refusedLines"`
	Stopped      *string       `json:"stopped"` // why the import ended early, if it did
	NextLine     int           `json:"nextLine"`
}

// refusedLine is what a single request for the user would have been answered.
type refusedLine struct {
	Line   int            `json:"line"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []fieldProblem `json:"errors,omitempty"`
}

const (
	maxLine         = 2_000_000_000 // the greatest number of the first line
	maxRefusedLines = 1000          // how many an answer lists
)

// importing is one request that imports users.
type importing struct {
	*admin
	r       *http.Request
	edits   bool            // lines change users who exist
	until   context.Context // nothing is begun after its end
	now     time.Time       // the repository's, for the lines of a round
	answer  importAnswer
	failure error // the last one that is not for the client
}

// importUsers creates the users of the lines of a body, and can edit those who exist, for as long as a
// request may take.
func (a *admin) importUsers(r *http.Request) (reply, error) {
	var bad complaints
	query := queryOf(r, &bad, "line", "existing", "dryRun")
	first := 1
	if text, ok := query["line"]; ok {
		var err error
		if first, err = strconv.Atoi(text); err != nil || first < 1 || first > maxLine {
			bad.add("line", "is not a whole number between 1 and %d", maxLine)
		}
	}
	if how, ok := query["existing"]; ok && how != "edit" && how != "refuse" {
		bad.add("existing", "is not one of refuse, edit")
	}
	if dry, ok := query["dryRun"]; ok && dry != "true" && dry != "false" {
		bad.add("dryRun", "is not one of true, false")
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	i := &importing{admin: a, r: r, edits: query["existing"] == "edit"}
	i.answer.NextLine, i.answer.Refused, i.answer.DryRun = first, []refusedLine{}, query["dryRun"] == "true"
	err := i.run(first)
	answer := &i.answer
	answer.Lines = answer.NextLine - first
	if err != nil && answer.Lines == 0 {
		return reply{}, err
	}
	if err != nil {
		p, complete := problemOf(r, err)
		if answer.Stopped = &p.Detail; !complete {
			i.failure = err
		}
	}
	return reply{status: http.StatusOK, body: answer, failure: i.failure}, nil
}

// run processes the lines in rounds.
func (i *importing) run(first int) error {
	deadline, _ := i.r.Context().Deadline()
	until, cancel := context.WithDeadline(i.r.Context(), deadline.Add(operateLimit-requestLimit))
	defer cancel()
	i.until = until
	body := i.read(first)
	defer body.stop()
	for until.Err() == nil {
		round, more := body.round(until)
		if len(round) > 0 {
			if err := i.process(round); err != nil {
				return err
			}
		}
		if !more && until.Err() == nil {
			return body.err
		}
	}
	return timeIsOver()
}

func timeIsOver() error {
	return newProblem(http.StatusServiceUnavailable, "the time of a request is over")
}

// process stores the users of a round, page by page.
func (i *importing) process(round []*importLine) error {
	if err := i.judge(round); err != nil {
		return err
	}
	for len(round) > 0 {
		if i.until.Err() != nil {
			return timeIsOver()
		}
		page, err := i.page(round)
		if err != nil {
			return err
		}
		err = i.store(page)
		i.count(page)
		if err != nil {
			return err
		}
		round = round[len(page):]
	}
	return nil
}

// count adds the outcomes of a page up to its first line that was not processed.
func (i *importing) count(page []*importLine) {
	a := &i.answer
	for _, l := range page {
		switch l.outcome {
		case notProcessed:
			return
		case wasCreated:
			a.Created++
		case wasEdited:
			a.Edited++
		case wasUnchanged:
			a.Unchanged++
		case wasRefused:
			if a.RefusedLines++; len(a.Refused) < maxRefusedLines {
				a.Refused = append(a.Refused, l.refusal)
			}
		}
		a.NextLine = l.number + 1
	}
}

// judge refuses the lines of a round that cannot be valid.
func (i *importing) judge(round []*importLine) error {
	var err error
	if i.now, err = i.reader.Now(i.r.Context()); err != nil {
		return err
	}
	for _, l := range round {
		if l.outcome == wasBlank {
			continue
		}
		i.validateAttributes(l.change, &l.bad)
		missing := &l.bad
		if i.edits {
			missing = new(complaints)
		}
		if !l.bad.of[wholeLine] {
			l.profile = i.profileOf(l.change, missing)
			l.profile.ID = l.id
			if l.change.Merge != nil {
				l.profile.Attributes = jsonb.Merge([]byte("{}"), l.change.Merge)
			}
		}
		l.incomplete = missing.any() || i.leavesOut(l.change)
		if l.bad.any() || l.incomplete && !i.edits {
			l.refuse(l.complain(&l.bad, i.now, i.rules(), i.edits))
		}
	}
	return nil
}

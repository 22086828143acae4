package dashboard

import (
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"
)

// listComplaints are what is wrong with the fields of a form.
type listComplaints struct {
	Sentences []string
	fields    map[string]bool
	forbidden bool // whether a field needs a permission that the viewer lacks
}

func (c *listComplaints) add(field, sentence string) {
	if c.fields == nil {
		c.fields = make(map[string]bool)
	}
	c.fields[field] = true
	c.Sentences = append(c.Sentences, sentence)
}

// Has reports whether there is a complaint about a field.
func (c listComplaints) Has(field string) bool { return c.fields[field] }

// status returns the status of a page with these complaints, or zero for none.
func (c listComplaints) status() int {
	switch {
	case c.forbidden:
		return http.StatusForbidden
	case len(c.Sentences) > 0:
		return http.StatusBadRequest
	}
	return 0
}

// listOption is a choice of a form.
type listOption struct {
	Value, Text string
	Selected    bool
}

// listOptions returns the choices of a form: all values, and also the one that was sent.
func listOptions[T ~string](sent, none string, values ...T) []listOption {
	options := []listOption{{"", none, sent == ""}}
	for _, v := range values {
		options = append(options, listOption{string(v), string(v), string(v) == sent})
	}
	if sent != "" && !slices.Contains(values, T(sent)) {
		options = append(options, listOption{sent, listCut(sent, 50), true})
	}
	return options
}

// listCut returns at most n bytes of a text, in whole characters, and an ellipsis if the text
// is longer.
func listCut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return wholeCharacters(text, n) + "…"
}

// wholeCharacters returns the longest beginning of a text that has at most n bytes and ends
// between characters.
func wholeCharacters(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// listPermits asks each permission once for each user of a page.
type listPermits struct {
	r     *request
	known map[listPermit]bool
}

type listPermit struct {
	action Action
	user   uuid.UUID
}

func newListPermits(r *request) *listPermits { return &listPermits{r, make(map[listPermit]bool)} }

func (p *listPermits) may(a Action, user uuid.UUID) (bool, error) {
	key := listPermit{a, user}
	if may, known := p.known[key]; known {
		return may, nil
	}
	may, err := p.r.mayDo(a, user)
	p.known[key] = may
	return may, err
}

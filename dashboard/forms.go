package dashboard

import (
	"net/http"
	"slices"
)

// complaints are what is wrong with the fields of a form.
type complaints struct {
	Sentences []string
	Bad       map[string]bool // by the name of a field
	forbidden bool            // whether a field needs a permission that the viewer lacks
}

func (c *complaints) refuse(field, sentence string) {
	if c.Bad == nil {
		c.Bad = make(map[string]bool)
	}
	c.Bad[field] = true
	c.Sentences = append(c.Sentences, sentence)
}

// status returns the status of a page with these complaints, or zero for none.
func (c complaints) status() int {
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

package house_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// keyForm is snake_case, the form of all keys in logs.
var keyForm = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// keysOfErrors are forbidden keys for an error. The required key is "error".
func keysOfErrors() []string { return []string{"err", "cause", "failure", "exception", "panic"} }

// TestLogsHaveOneStyle requires snake_case keys, as columns and most Go programs have them, the key "error" for errors, and the
// idempotency key in every line about an event.
func TestLogsHaveOneStyle(t *testing.T) {
	t.Parallel()
	keys := 0
	for _, f := range tree(t) {
		if f.test {
			continue
		}
		for _, decl := range f.Decls {
			keys += f.checkLogs(t, decl)
		}
	}
	if keys < 100 {
		t.Errorf("found %d keys of log lines: the test does not see them any more", keys)
	}
}

// checkLogs checks the keys in a declaration, and returns how many there are.
func (f file) checkLogs(t *testing.T, decl ast.Decl) int {
	t.Helper()
	found := map[string]token.Pos{}
	count := 0
	see := func(key, value ast.Expr) {
		count++
		name, ok := textOf(key)
		switch {
		case !ok:
			return
		case !keyForm.MatchString(name):
			f.breaks(t, key.Pos(), "the key "+name+" of a log line is not in snake_case")
		case slices.Contains(keysOfErrors(), name):
			f.breaks(t, key.Pos(), "the key "+name+" of a log line: an error is under \"error\"")
		case name != "error" && isAnError(value):
			f.breaks(t, key.Pos(), "an error is under \""+name+"\" in a log line, not under \"error\"")
		}
		found[name] = key.Pos()
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f.makesAttr(call) && len(call.Args) > 1 {
			see(call.Args[0], call.Args[1])
		}
		args := call.Args[min(len(call.Args), valuesOf(call)):]
		for i := 0; i+1 < len(args); i++ {
			if _, isText := textOf(args[i]); isText {
				see(args[i], args[i+1])
				i++
			}
		}
		return true
	})
	if pos, ok := found["event_id"]; ok {
		if _, ok := found["idempotency_key"]; !ok {
			f.breaks(t, pos, "a log line about an event without its idempotency_key")
		}
	}
	return count
}

// makesAttr reports whether a call creates an attribute, as slog.String does.
func (f file) makesAttr(call *ast.CallExpr) bool {
	makers := []string{"Any", "Bool", "Duration", "Float64", "Group", "Int", "Int64", "String", "Time", "Uint64"}
	return slices.ContainsFunc(makers, func(name string) bool { return f.refers(call.Fun, "log/slog", name) })
}

// valuesOf returns the index of the first key among the arguments of a log call.
func valuesOf(call *ast.CallExpr) int {
	const none = 1 << 10
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return none
	}
	switch selector.Sel.Name {
	case "DebugContext", "InfoContext", "WarnContext", "ErrorContext":
		return 2
	case "Debug", "Info", "Warn", "Error":
		if slices.Contains([]string{"log", "Log", "slog", "logger"}, lastName(selector.X)) {
			return 1
		}
	}
	return none
}

// lastName returns the last name of an expression: "log" of "s.r.log".
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// isAnError reports whether an expression has the name of an error.
func isAnError(x ast.Expr) bool {
	return slices.Contains([]string{"err", "Err", "PlanErr", "FollowErr"}, lastName(x))
}

// textOf returns the value of a literal string.
func textOf(x ast.Expr) (string, bool) {
	literal, ok := x.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

package almanactest

import (
	"context"
	"time"
)

// abilityCases are the cases that every repository must pass, if only with trivial
// implementations.
var abilityCases = map[string]func(*kit){
	"Verify/returns nil when nothing is missing":      func(k *kit) { k.ok(k.r.Verify(k.Context())) },
	"InTransaction/is false outside of a transaction": func(k *kit) { k.same("in a transaction", k.r.InTransaction(), false) },
	"Listen/returns when its context ends": func(k *kit) {
		ctx, stop := context.WithTimeout(k.Context(), 10*time.Second)
		defer stop()
		returned := false
		err := k.r.Listen(ctx, func() {
			k.same("woken after it has returned", returned, false)
			stop()
		})
		returned = true
		if ctx.Err() != nil {
			k.ok(err)
		}
	},
}

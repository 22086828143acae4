package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Each case ends the context of an item in one way and looks at it in another: before anything has
// waited for its end, and after.
func TestTheContextOfAnItemIsOneOfPackageContext(t *testing.T) {
	type key struct{}
	ends := map[string]struct {
		end        func(c *itemContext, endWork context.CancelCauseFunc)
		err, cause error
	}{
		"returned":     {func(c *itemContext, _ context.CancelCauseFunc) { c.end(nil) }, context.Canceled, context.Canceled},
		"lease lost":   {func(c *itemContext, _ context.CancelCauseFunc) { c.end(ErrLeaseLost) }, context.Canceled, ErrLeaseLost},
		"work ended":   {func(_ *itemContext, end context.CancelCauseFunc) { end(ErrDraining) }, context.Canceled, ErrDraining},
		"out of time":  {func(*itemContext, context.CancelCauseFunc) { time.Sleep(time.Minute) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"lost, ended":  {func(c *itemContext, _ context.CancelCauseFunc) { c.end(ErrLeaseLost); c.end(nil) }, context.Canceled, ErrLeaseLost},
		"late, ended":  {func(c *itemContext, _ context.CancelCauseFunc) { time.Sleep(time.Hour); c.end(nil) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"work, ended":  {func(c *itemContext, end context.CancelCauseFunc) { end(ErrDraining); c.end(nil) }, context.Canceled, ErrDraining},
		"ended, late":  {func(c *itemContext, _ context.CancelCauseFunc) { c.end(nil); time.Sleep(time.Hour) }, context.Canceled, context.Canceled},
		"ended, ended": {func(c *itemContext, end context.CancelCauseFunc) { c.end(nil); end(ErrDraining) }, context.Canceled, context.Canceled},
	}
	looks := map[string]func(*itemContext) (context.Context, func()){
		"never looked at": func(c *itemContext) (context.Context, func()) { return c, func() {} },
		"waited for":      func(c *itemContext) (context.Context, func()) { c.Done(); return c, func() {} },
		"a child":         func(c *itemContext) (context.Context, func()) { return context.WithCancel(c) },
		"a child's child": func(c *itemContext) (context.Context, func()) {
			return context.WithTimeout(context.WithValue(c, key{}, "other"), time.Hour)
		},
	}
	for name, one := range ends {
		for how, look := range looks {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					work, endWork := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
					defer endWork(nil)
					c := &itemContext{work: work, limit: time.Now().Add(time.Minute)}
					defer c.end(nil)
					ctx, stop := look(c)
					defer stop()
					require.NoError(t, ctx.Err())
					require.NoError(t, context.Cause(ctx))
					require.NotNil(t, ctx.Value(key{}))
					deadline, ok := ctx.Deadline()
					require.True(t, ok)
					require.Equal(t, c.limit, deadline)

					one.end(c, endWork)
					synctest.Wait()
					require.Equal(t, one.err, ctx.Err())
					require.Equal(t, one.cause, context.Cause(ctx))
					select {
					case <-ctx.Done():
					default:
						t.Error("Done is not closed")
					}
					require.Equal(t, "value", c.Value(key{}))
				})
			})
		}
	}
}

func TestNothingIsMadeForAnItemThatOnlyAsksWhetherItMayGoOn(t *testing.T) {
	c := &itemContext{work: t.Context(), limit: time.Now().Add(time.Minute)}
	require.NoError(t, c.Err())
	require.NoError(t, context.Cause(c))
	c.end(nil)
	require.Nil(t, c.made)
	require.ErrorIs(t, c.Err(), context.Canceled)
}

package pgtest

import "context"

// Keep lets tests run a program as PgBouncer is run.
func Keep(dir string, argv []string) (stop func(context.Context) error, lastWords func() string, err error) {
	k, err := keep(dir, argv)
	if err != nil {
		return nil, nil, err
	}
	return k.stop, k.lastWords, nil
}

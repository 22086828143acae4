package calendar_test

// must makes examples short: what cannot fail in them panics.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

package pgserver

// Search is Find with the machine in its arguments.
func Search(path string, patterns []string) (Binaries, error) {
	return search(path, patterns, func(Binaries) bool { return true })
}

package pgserver

import "context"

// Search is Find with the machine in its arguments.
func Search(path string, patterns []string) (Binaries, error) {
	return search(path, patterns, func(Binaries) bool { return true })
}

// Run runs a program as the account of this process.
func Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	return account{}.run(ctx, name, args...)
}

// MakeTemporary creates the directory of a temporary cluster.
func MakeTemporary(durable bool) (string, error) { return makeTemporary(durable) }

// MemoryDir returns the directory whose files are in memory, if there is one.
func MemoryDir() string { return memoryDir() }

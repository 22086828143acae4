//go:build !linux

package pgserver

// memoryDir returns "": this system has no known directory in memory.
func memoryDir() string { return "" }

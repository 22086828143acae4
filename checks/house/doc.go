// Package house checks the source code. Its tests read the modules of the workspace: the root,
// cmd, contrib and the examples. They fail when a package imports what it must not, or when a file, a function
// or a type is larger than its budget. The package has no code of its own.
//
// A failure names file, line and rule. Fix the code; the few exceptions are listed in the
// tests, each with its reason.
package house

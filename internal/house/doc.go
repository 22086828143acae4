// Package house keeps the house in order: its tests read the source of the root
// module, of contrib and of the examples, and fail where a room imports what it must not know, or where a
// file, a function or a type outgrows its budget. It has no code of its own.
//
// A failure names file, line and rule. The answer to it is to change the code;
// the few exceptions stand in the tests, each with its reason.
package house

// Package mutations proves that tests hold what they are named for. The lists are the files
// list_*_test.go: for each safeguard a patch that removes it, the test that must fail without it, and
// the promise that it keeps, in the words of the document that makes the promise.
//
// By default, its tests prove that each patch applies, that each named test exists, and that each
// promise is in its document. With -mutate they remove one safeguard after another from a copy of the
// tree, and run the test of each. The package has no code of its own.
package mutations

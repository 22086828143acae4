// Package deploy checks the files of examples/birthdayd/deploy against schemas and against the
// programs. The package has no code of its own.
package deploy

// Package docs compares the README and the pages of docs with the code: fragments compile, programs
// and sessions print what is shown, and names and figures are those of the code. The package has no
// code of its own.
package docs

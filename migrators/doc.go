// Package migrators has no code of its own: its tests apply exported migrations by
// goose, tern and golang-migrate themselves, which only this module requires.
package migrators

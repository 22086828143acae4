package zoneinfo

// SystemOf is System with the directories of the machine in its arguments.
var SystemOf = system

// Builtin is what the program's own data is labelled, given runtime.Version.
var Builtin = builtin

// OwnVersion is Builtin for this program.
var OwnVersion = ownVersion

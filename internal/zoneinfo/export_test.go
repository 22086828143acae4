package zoneinfo

// SystemOf is System with the machine's directories as an argument.
var SystemOf = system

// Builtin returns the version of the program's own data for a value of runtime.Version.
var Builtin = builtin

// OwnVersion is Builtin for this program.
var OwnVersion = ownVersion

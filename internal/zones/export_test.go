package zones

// Places exports the table of abbreviations to tests.
var Places = places

// SystemV exports the names that are suggested only for their own spelling.
var SystemV = systemV

// Windows exports the table of Windows' names.
var Windows = windows

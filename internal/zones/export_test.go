package zones

// Places lets tests see the table of abbreviations.
var Places = places

// SystemV lets tests see the names that are suggested in their own spelling only.
var SystemV = systemV

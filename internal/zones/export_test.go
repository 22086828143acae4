package zones

// Places lets tests see the table of abbreviations.
var Places = places

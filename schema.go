package almanac

import _ "embed"

//go:embed schema.sql
var schemaSQL string

// Schema returns the whole database schema as commented SQL. The PostgreSQL schema
// that holds the tables must exist; its name stands in the text as the psql
// variable schema:
//
//	psql -v schema=almanac -f schema.sql
//
// Programs need not apply it: package postgres migrates.
func Schema() string { return schemaSQL }

package almanac

import _ "embed"

//go:embed schema.sql
var schemaSQL string

// Schema returns the whole database schema as commented SQL, for a database that does
// not have it yet. The name of the PostgreSQL schema that holds the tables stands in
// the text as the psql variable schema:
//
//	psql -v ON_ERROR_STOP=1 -v schema=almanac -f schema.sql
//
// Programs find such a database migrated. They need not apply it: package postgres
// migrates.
func Schema() string { return schemaSQL }

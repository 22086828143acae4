package shards

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/slots"
)

// Slots is the number of slots. It never changes.
const Slots = slots.Count

// SlotOf returns the slot of a user, 0 to 1023: the first 10 bits of SHA-256 over the 16 bytes of the id.
// The last 10 bits of the ids of the user's events, as the scheduler makes them, are the same number.
func SlotOf(userID uuid.UUID) int { return slots.Of(userID) }

// Directory says which schema has the users of each slot, and on which server each schema is. All programs must
// use the same directory: a program with another one neither finds the users nor keeps them unique.
type Directory struct {
	// Version numbers the directories of a host, from 1.
	Version int
	// Schemas are the schemas, 1 to 1,024.
	Schemas []Place
	// Slots has, for each slot, the index of its schema in Schemas.
	Slots [Slots]uint16
}

// Place is a schema in a [Directory].
type Place struct {
	Schema string // names the schema: not empty, and different from the others
	Server string // names its server, for operators; may be empty
}

// NewDirectory returns a directory of version 1. Each schema has an equal number of consecutive slots, or one more or less.
// It does not check the schemas: see [Directory.Check].
func NewDirectory(schemas ...Place) Directory {
	d := Directory{Version: 1, Schemas: schemas}
	for slot := range d.Slots {
		d.Slots[slot] = uint16(slot * len(schemas) / Slots)
	}
	return d
}

// Check checks the directory. The error is an [*almanac.ValidationError] that names each invalid field.
func (d Directory) Check() error {
	var bad []almanac.FieldError
	refuse := func(field, problem string, args ...any) {
		bad = append(bad, almanac.FieldError{Field: field, Problem: fmt.Sprintf(problem, args...)})
	}
	if d.Version < 1 {
		refuse("version", "is %d, and not 1 or greater", d.Version)
	}
	if len(d.Schemas) < 1 || len(d.Schemas) > Slots {
		refuse("schemas", "are %d, and not 1 to %d", len(d.Schemas), Slots)
	}
	first := make(map[string]int)
	for i, one := range d.Schemas {
		field := fmt.Sprintf("schemas[%d]", i)
		before, twice := first[one.Schema]
		switch {
		case one.Schema == "":
			refuse(field, "has no name")
		case twice:
			refuse(field, "has the name %q of schemas[%d]", one.Schema, before)
		default:
			first[one.Schema] = i
		}
	}
	for slot, schema := range d.Slots {
		if int(schema) >= len(d.Schemas) {
			refuse(fmt.Sprintf("slots[%d]", slot), "is schema %d of %d", schema, len(d.Schemas))
		}
	}
	if bad != nil {
		return &almanac.ValidationError{Fields: bad}
	}
	return nil
}

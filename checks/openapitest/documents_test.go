package openapitest_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/pb33f/go-yaml"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/stretchr/testify/require"
)

func TestTheDocumentsAreValid(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for name, h := range map[string]http.Handler{"api": o.api(t), "admin": o.admin(t)} {
		d := describe(t, h)
		valid, errs := d.validator.ValidateDocument()
		require.True(t, valid, "%s: %v", name, errs)
		model, err := d.document.BuildV3Model()
		require.NoError(t, err)

		checked := checkExamples(t, &model.Model)

		require.Greater(t, checked, 40, "%s: examples", name)
	}
}

// checkExamples compares every example with its schema, and returns how many there are.
func checkExamples(t *testing.T, model *v3.Document) (checked int) {
	t.Helper()
	schemas := schema_validation.NewSchemaValidator(config.WithFormatAssertions())
	check := func(where string, schema *base.Schema, example *yaml.Node) {
		if example == nil {
			return
		}
		checked++
		var value any
		require.NoError(t, example.Decode(&value), where)
		text, err := json.Marshal(value)
		require.NoError(t, err, where)
		ok, errs := schemas.ValidateSchemaBytes(schema, text)
		require.True(t, ok, "%s: %s: %v", where, text, errs)
	}
	answers := func(where string, response *v3.Response) {
		for kind, media := range response.Content.FromOldest() {
			check(where+" "+kind, media.Schema.Schema(), media.Example)
		}
	}
	for name, proxy := range model.Components.Schemas.FromOldest() {
		schema := proxy.Schema()
		for _, example := range schema.Examples {
			check(name, schema, example)
		}
		for member, proxy := range schema.Properties.FromOldest() {
			property := proxy.Schema()
			for _, example := range property.Examples {
				check(name+"."+member, property, example)
			}
		}
	}
	for name, response := range model.Components.Responses.FromOldest() {
		answers(name, response)
	}
	for path, item := range model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			for status, response := range operation.Responses.Codes.FromOldest() {
				answers(path+" "+method+" "+status, response)
			}
		}
	}
	return checked
}

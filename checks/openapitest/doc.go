// Package openapitest has no code of its own: its tests compare the requests and the answers
// of package httpapi with its OpenAPI documents, by a validator.
package openapitest

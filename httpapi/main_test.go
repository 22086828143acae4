package httpapi_test

import (
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

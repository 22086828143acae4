package postgres

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDomainErrorsAreNotWrapped(t *testing.T) {
	t.Parallel()
	require.NoError(t, asIs(nil))
	cause := errors.New("no such day")
	require.Equal(t, cause, wrap("find event", asIs(cause)))
}

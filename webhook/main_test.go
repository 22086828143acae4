package webhook_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(receiverURL); url != "" {
		if err := receive(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}

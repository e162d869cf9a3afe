package store_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain sizes the random tests.
func TestMain(m *testing.M) {
	checks := map[string]string{"": "8", "small": "8", "ci": "100", "full": "2000"}[os.Getenv("ORDERD_TEST_SIZE")]
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

package pgstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
)

// session makes the sessions of a pool have settings of their own.
func session(settings map[string]string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		for name, value := range settings {
			c.ConnConfig.RuntimeParams[name] = value
		}
	}
}

// TestWarnings looks at the shared server, which runs without fsync.
func TestWarnings(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	for _, c := range []struct {
		name     string
		settings map[string]string
		want     string // what the third warning begins with or contains; "" is none
	}{
		{"on", nil, ""},
		{"remote_apply", map[string]string{"synchronous_commit": "remote_apply"}, ""},
		{"off", map[string]string{"synchronous_commit": "off"}, "synchronous_commit is off"},
		{"local", map[string]string{"synchronous_commit": "local"}, "synchronous_commit is local"},
		{"remote_write", map[string]string{"synchronous_commit": "remote_write"}, "synchronous_commit is remote_write"},
		{"slow statements are logged", map[string]string{"log_min_duration_statement": "1h"}, "(log_min_duration_statement)"},
		{"all statements are logged", map[string]string{"log_statement": "all"}, "(log_statement)"},
		{"some statements are logged", map[string]string{"log_min_duration_sample": "1h"}, "(log_min_duration_sample)"},
		{"no sample is drawn", map[string]string{"log_min_duration_sample": "0", "log_statement_sample_rate": "0"}, ""},
		{"some transactions are logged", map[string]string{"log_transaction_sample_rate": "0.000001"}, "(log_transaction_sample_rate)"},
		{"changes are logged", map[string]string{"log_statement": "mod"}, ""}, // no statement that changes something has a grant id
		{"parameters of failures are logged", map[string]string{"log_parameter_max_length_on_error": "-1"}, "(log_parameter_max_length_on_error)"},
		{"two", map[string]string{"log_statement": "all", "log_parameter_max_length": "4", "log_parameter_max_length_on_error": "4"}, "(log_parameter_max_length_on_error, log_statement)"},
		{"no parameters", map[string]string{"log_statement": "all", "log_min_duration_statement": "1h", "log_parameter_max_length": "0"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list, err := backend(t, pgtxtest.Open(t, url, session(c.settings)), nil).Warnings(t.Context())
			if err != nil || len(list) < 2 || !strings.HasPrefix(list[0], "fsync is off") || !strings.HasPrefix(list[1], "full_page_writes is off") {
				t.Fatalf("got %q, %v, want fsync and full_page_writes", list, err)
			}
			if got := strings.Join(list[2:], "; "); len(list) > 3 || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

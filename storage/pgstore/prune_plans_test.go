package pgstore_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
)

// TestPlansAreGeneric: a plan that was made for a call shows its grant id to whoever may have plans
// logged, in the functions that compare with or write one.
func TestPlansAreGeneric(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.Database(t))
	for _, f := range []string{"raise", "retire", "evict", "lock_serve", "lock_join", "lock_leave", "lock_transfer", "lock_release", "row_grant", "row_end", "row_renew"} {
		var n, generic int
		if err := pool.QueryRow(t.Context(), `select count(*), count(*) filter (where 'plan_cache_mode=force_generic_plan' = any(proconfig))
			from pg_proc where pronamespace = 'fencegate'::regnamespace and proname = $1`, f).Scan(&n, &generic); err != nil || n != 1 || generic != 1 {
			t.Errorf("%s: %d of %d functions plan without their arguments, %v, want 1", f, generic, n, err)
		}
	}
}

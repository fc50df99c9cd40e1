package pgguard_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// TestWritersInOrder: writers with old and new tokens, some of which set the variable by hand, while
// new tokens are raised. What was written is a sequence of epochs, one token each.
func TestWritersInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, "create table history (place bigserial, id text, number bigint)", "grant usage on sequence history_place_seq to "+w.role)
	w.grant(t, "history")
	w.protect(t, pgguard.Guard{Table: "history", Prefix: "coupon:", Column: "id"})
	pool := pgtxtest.Open(t, w.urlOf(w.role))
	var mu sync.Mutex // guards tokens
	tokens := []fencing.Token{w.raise(t, "coupon:1", 1)}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var accepted, refused [2]int
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				tok := tokens[max(0, len(tokens)-1-rand.IntN(3))]
				mu.Unlock()
				hand := rand.IntN(2)
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					var err error
					if hand == 1 {
						err = set(t, tx, tok.Resource, tok.Text())
					} else {
						err = pgguard.Enter(t.Context(), tx, tok)
					}
					if err != nil {
						return err
					}
					// The place is drawn behind the fence only if that was entered; else it is drawn again.
					if _, err = tx.Exec(t.Context(), "insert into history (id, number) values ('1', $1)", tok.Number); err == nil {
						_, err = tx.Exec(t.Context(), "update history set place = nextval('history_place_seq') where place = currval('history_place_seq')")
					}
					return err
				})
				err = pgguard.Explain(err, tok)
				mu.Lock()
				switch {
				case err == nil:
					accepted[hand]++
				case errors.Is(err, fencing.ErrStale):
					refused[hand]++
				case fencing.OutcomeOf(err) != fencing.Failed:
					t.Errorf("got %v, want applied, stale or failed", err)
				}
				mu.Unlock()
			}
		})
	}
	seen := func() (both bool, count int) {
		mu.Lock()
		defer mu.Unlock()
		return min(accepted[0], accepted[1], refused[0], refused[1]) > 0, accepted[0] + accepted[1]
	}
	end := time.Now().Add(2 * time.Second)
	for n := int64(2); !t.Failed() && time.Now().Before(end.Add(30*time.Second)); n++ {
		tok := w.raise(t, "coupon:1", n)
		mu.Lock()
		tokens = append(tokens, tok)
		mu.Unlock()
		if n%3 == 0 {
			wantNil(t, "retire", w.fence.Retire(t.Context(), tok))
			continue
		}
		_, before := seen()
		testenv.Eventually(t, 20*time.Second, "a write is accepted", func() bool {
			_, now := seen()
			return now > before || t.Failed()
		})
		if both, _ := seen(); both && time.Now().After(end) {
			break
		}
	}
	close(stop)
	wg.Wait()
	rows, _ := w.admin.Query(t.Context(), "select number from history order by place")
	list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(list) != accepted[0]+accepted[1] {
		t.Errorf("%d rows, %v, want the %v that were accepted", len(list), err, accepted)
	}
	for i := range list {
		if i > 0 && list[i] < list[i-1] {
			t.Fatalf("a write of %d after one of %d", list[i], list[i-1])
		}
	}
	t.Logf("accepted %v, refused %v", accepted, refused)
}

package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
)

func operatorFaults() []Fault {
	return []Fault{
		{
			Name: "evict-holders",
			What: "an operator evicts holders by their numbers, in the stores and in the lock, again and again",
			Expect: "the next waiter is granted the lock at once; the one who was evicted is refused, and his late " +
				"release or renewal touches nobody else's hold",
			// Whoever is evicted trusts his lease until he looks at it.
			Loses: []history.Loss{history.LosesLocks},
			Fits:  anywhere, Hold: time.Second, Inject: evictHolders,
		},
		{
			Name:   "evict-all-marks",
			What:   "an operator evicts all marks of the store (fencegate evict --all-marks) under load, twice",
			Expect: "every lease of before is refused; its holder acquires anew, and nothing else happens",
			Fits:   func(s rig.Spec) bool { return storeInRedis(s) || storeInPostgres(s) },
			Hold:   300 * time.Millisecond, Inject: evictAllMarks,
			Destroys: true, // of a server of the user's own: leases of others than the run
		},
	}
}

func evictHolders(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	access, err := r.Access(ctx)
	if err != nil {
		return nil, err
	}
	evicted, unknown := 0, 0
	stop := repeat(ctx, rnd, 30*time.Millisecond, func(ctx context.Context, rnd *rand.Rand) (did bool, err error) {
		held, err := access.Issuer.List(ctx, r.Spec.Client.Prefix, "", 200)
		if err != nil || len(held) == 0 {
			return false, err
		}
		var errs []error
		for _, i := range pick(rnd, 4, len(held)) {
			err := access.Issuer.Evict(ctx, held[i].Resource, held[i].Number, "the fault machine's operator")
			errs = append(errs, err)
			switch {
			case err == nil:
				evicted++
				did = true
			case fencing.OutcomeOf(err) == fencing.Unknown:
				unknown++
			}
		}
		return did, errors.Join(errs...)
	})
	return func(context.Context) error {
		_, err := stop()
		note.Detail = fmt.Sprintf("%d holders", evicted)
		return cmp.Or(err, atLeastOne(ctx, evicted+unknown, "no holder was evicted"))
	}, nil
}

func evictAllMarks(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	store, done, err := allEvicter(ctx, r)
	if err != nil {
		return nil, err
	}
	defer done()
	total := 0
	for range 2 {
		n, err := store.EvictAll(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("after %d marks: %w", n, err)
		}
		total += n
		wait(ctx, about(rnd, 200*time.Millisecond))
	}
	note.Detail = fmt.Sprintf("%d marks", total)
	return none, atLeastOne(ctx, total, "there was no mark to be evicted")
}

// allEvicter opens the store as "fencegate evict" does.
func allEvicter(ctx context.Context, r *rig.Rig) (store storage.AllEvicter, done func(), err error) {
	if storeInRedis(r.Spec) {
		list := redisServers(r)
		c, err := list[len(list)-1].client()
		if err != nil {
			return nil, nil, err
		}
		done = func() { _ = c.Close() }
		store, err = redisstore.New(ctx, redis.UniversalClient(c), nil)
		if err != nil {
			done()
			return nil, nil, err
		}
		return store, done, nil
	}
	config, err := pgxpool.ParseConfig(r.PostgresURL())
	if err != nil {
		return nil, nil, err
	}
	pgstore.Configure(config)
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	store, err = pgstore.New(ctx, pool, nil)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return store, pool.Close, nil
}

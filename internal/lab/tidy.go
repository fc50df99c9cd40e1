package lab

import (
	"context"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// tidy gives back what the session holds and deletes its records, as far as that can be done quickly.
func (s *session) tidy() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, short := range []string{Coupon, Stock} {
		if err := s.sweep(ctx, s.resource(short)); err != nil {
			s.lab.o.Logger.Debug("a session of the lab left something behind", "resource", s.resource(short), "error", err)
		}
	}
}

func (s *session) sweep(ctx context.Context, resource string) error {
	st, err := s.stage.issuer.Status(ctx, resource)
	if err != nil {
		return err
	}
	if st.Held {
		if err := s.stage.lock.Evict(ctx, resource, st.Number); err != nil {
			return err
		}
	}
	m, err := s.stage.store.Mark(ctx, resource)
	if err != nil {
		return err
	}
	g, err := s.stage.issuer.Grant(ctx, locking.Request{Resource: resource, Label: "tidy", TTL: 10 * time.Second, Floor: m.Number})
	if err != nil {
		return err
	}
	for {
		records, err := s.stage.store.List(ctx, resource, "", "", 1000)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			break
		}
		for chunk := range slices.Chunk(records, maxOps) {
			var ops []storage.Op
			for _, r := range chunk {
				ops = append(ops, storage.Delete(resource, r.Key))
			}
			if _, err := s.stage.store.Commit(ctx, storage.Commit{Tokens: []fencing.Token{g.Token}, Ops: ops}); err != nil {
				return err
			}
		}
	}
	_, err = s.stage.issuer.Release(ctx, g.Token)
	return err
}

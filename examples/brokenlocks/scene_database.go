package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// session is a connection of who's own to the database of the telling. It is closed with done.
func (s *Scene) session(ctx context.Context) (_ *pgx.Conn, done func(), err error) {
	c, err := pgx.ConnectConfig(ctx, s.DB.Config().ConnConfig)
	if err != nil {
		return nil, nil, err
	}
	return c, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = c.Close(ctx)
	}, nil
}

// until waits for cond, which is asked again and again.
func (s *Scene) until(ctx context.Context, cond func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if ok, err := cond(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
		}
	}
}

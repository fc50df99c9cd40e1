package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func replicaPromoted() Exhibit {
	return Exhibit{
		Name:  "replica-promoted",
		Title: "A replica promoted before the lock reached it",
		Seen:  "any lock on Redis with Sentinel, Cluster or a managed failover",
		Words: []string{
			"The lock lies on a primary, and a replica stands by to take its place.",
			"Redis answers a SET before its replicas have it, so a replica that is promoted a moment too early has never heard of the lock, and gives it to the next who asks (the cut link is one that looks for its primary where nobody listens).",
			"The counter was lost with the lock and draws 33 a second time; the store has seen 33 and refuses it, a higher number is drawn, and from then on A is refused.",
		},
		Needs: Replica,
		Thing: Online,
		Tell:  tellReplicaPromoted,
	}
}

func tellReplicaPromoted(ctx context.Context, s *Scene) error {
	primary, replica := s.Redis[0], s.Redis[1]
	host, port, err := net.SplitHostPort(s.Nodes[0].Addr())
	if err != nil {
		return err
	}
	if err := follow(ctx, primary, replica, host, port); err != nil {
		return err
	}
	// A replica that looks for its primary where nobody listens stands for one whose network is slow
	// or cut: it keeps what it has, and hears of nothing new.
	if err := replica.ReplicaOf(ctx, host, "1").Err(); err != nil {
		return err
	}
	s.begin()
	s.Bad(Lock, "the replica's link is cut")

	takeForLong(ctx, s, A)
	n := s.Read(ctx, A)

	if err := s.Nodes[0].Kill(ctx); err != nil {
		return err
	}
	s.Bad(Lock, "the primary dies")
	s.Redis = s.Redis[1:] // nobody asks it for a number either
	if err := replica.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		return err
	}
	s.Note(Lock, "the replica is promoted")

	s.Must(s.Node(B, 1).SetNX(ctx, lockKey, B, time.Minute).Val(), "B gets the lock, too")
	s.Acquired(ctx, B)
	s.Change(ctx, B, -1) // somebody logs out

	s.Write(ctx, A, n+1) // A's somebody logs in, and A's time has hardly begun
	return nil
}

// follow makes replica a replica of primary, and returns when it has all that primary has.
func follow(ctx context.Context, primary, replica *redis.Client, host, port string) error {
	if err := replica.ReplicaOf(ctx, host, port).Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		info, err := replica.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, "master_link_status:up") {
			break
		}
		select {
		case <-ctx.Done():
			return errors.New("the replica does not get through to its primary")
		case <-look.C:
		}
	}
	if err := primary.Set(ctx, "proof", "that writes arrive", 0).Err(); err != nil {
		return err
	}
	if have, err := primary.Wait(ctx, 1, 10*time.Second).Result(); have < 1 {
		return fmt.Errorf("the replica has not got a write of the primary: %w", err)
	}
	return nil
}

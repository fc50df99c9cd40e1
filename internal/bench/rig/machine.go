package rig

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// compared are the modules whose versions matter to the figures.
var compared = map[string]bool{
	"github.com/redis/go-redis/v9": true, "github.com/go-redsync/redsync/v4": true, "github.com/bsm/redislock": true,
	"github.com/redis/rueidis": true, "github.com/jackc/pgx/v5": true, "modernc.org/sqlite": true,
}

// Machine says in a few lines what the figures were measured on.
func Machine(ctx context.Context, tb testing.TB) string {
	redis := Client(tb, testenv.SharedRedis(tb).Addr(), 1)
	version := "unknown"
	for line := range strings.Lines(redis.Info(ctx, "server").Val()) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			version = strings.TrimSpace(v)
		}
	}
	text := fmt.Sprintf("%s/%s, %d cores, %s, Redis %s, PostgreSQL %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), version, postgres(ctx, tb))
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if compared[m.Path] {
				text += "\n" + m.Path + " " + m.Version
			}
		}
	}
	return text
}

func postgres(ctx context.Context, tb testing.TB) string {
	pool, err := Pool(ctx, tb, testenv.SharedPostgres(tb).URL(), 1)
	version := "unknown"
	if err == nil {
		_ = pool.QueryRow(ctx, "show server_version").Scan(&version)
	}
	version, _, _ = strings.Cut(version, " ") // the rest is the distribution's
	return version
}

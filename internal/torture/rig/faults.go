package rig

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/fencegate/fencegate/internal/testenv"
)

// PostgresURL is the run's database, past links; empty where nothing is in Postgres.
func (r *Rig) PostgresURL() string {
	if r.postgres == nil {
		return ""
	}
	return r.postgres.at(r.Server(r.postgresName()), parentName)
}

// postgresName is the name of the server that has the run's database.
func (r *Rig) postgresName() string {
	if isPostgres(r.Spec.Store) {
		return r.StoreName()
	}
	return r.LockNames()[0]
}

// postgresStandby is the stronger of what lock and store want of theirs.
func (r *Rig) postgresStandby() Standby {
	kind := NoStandby
	if isPostgres(r.Spec.Lock) {
		kind = r.Spec.LockStandby
	}
	if isPostgres(r.Spec.Store) {
		kind = max(kind, r.Spec.StoreStandby) // sync is the greater
	}
	return kind
}

// PromotePostgres makes the standby the primary, which must be dead, in the place of it: names, fields and links.
// The new one has no standby.
func (r *Rig) PromotePostgres() error {
	heir := r.PostgresStandby
	if heir == nil {
		return errors.New("the Postgres has no standby")
	}
	if err := r.Try(heir.Promote); err != nil {
		return err
	}
	r.PostgresStandby = nil
	if r.LockPostgres != nil {
		r.LockPostgres = heir
	}
	if r.StorePostgres != nil {
		r.StorePostgres = heir
	}
	return r.Switch(r.postgresName(), heir.Addr())
}

// NewPostgresStandby gives the primary a standby where it has none, of the kind that the spec asks for.
func (r *Rig) NewPostgresStandby() error {
	primary := r.StorePostgres
	if primary == nil {
		primary = r.LockPostgres
	}
	standby := r.postgresStandby()
	if primary == nil || r.PostgresStandby != nil || standby == NoStandby {
		return nil
	}
	return r.Try(func() {
		r.PostgresStandby = testenv.StartPostgres(r.tb, &testenv.PostgresOptions{
			StandbyOf: primary, Settings: r.Spec.PostgresSettings, Env: r.Spec.PostgresEnv,
		})
		primary.AwaitStandby("streaming")
		if standby == Sync {
			primary.Set("synchronous_standby_names", "*")
			primary.AwaitStandby("sync")
		}
	})
}

// SmallDiskDir returns a directory on the small disk that is the store's; empty without.
func (r *Rig) SmallDiskDir() string {
	switch {
	case r.Spec.SmallDisk == 0:
		return ""
	case r.StorePostgres != nil:
		return filepath.Join(r.StorePostgres.Dir(), "volume")
	case r.StoreRedis != nil:
		return filepath.Join(r.StoreRedis.Dir(), "volume")
	case r.Spec.Store == "sqlite" && len(r.Gateways) > 0:
		args := r.Gateways[0].args
		if i := slices.Index(args, "--sqlite-path"); i >= 0 {
			return filepath.Dir(args[i+1])
		}
	}
	return ""
}

package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/fencegate/fencegate/fencing"
)

// Status is where a database stands.
type Status struct {
	Current uint // the version it has; 0 before the first step
	Latest  uint // the version that this program knows
	Dirty   bool // a step to Current was left half done; the next Up or Down settles it
}

// Version reads where the database stands. It changes nothing.
func (m *Migrator) Version(ctx context.Context) (Status, error) {
	v, dirty, err := m.version(ctx)
	if err != nil {
		return Status{}, m.explain(stopped(ctx, err))
	}
	return Status{Current: v, Latest: Latest(m.dialect), Dirty: dirty}, nil
}

// List returns every step that this program knows, with Applied set. It changes nothing.
func (m *Migrator) List(ctx context.Context) ([]Migration, error) {
	s, err := m.Version(ctx)
	if err != nil {
		return nil, err
	}
	all := All(m.dialect)
	for i := range all {
		all[i].Applied = all[i].Version < s.Current || all[i].Version == s.Current && !s.Dirty
	}
	return all, nil
}

// Up applies every step that is missing and returns those that it applied, also beside
// an error.
func (m *Migrator) Up(ctx context.Context) (done []Migration, err error) {
	err = m.locked(ctx, func(s Status) error {
		for _, step := range All(m.dialect) {
			if step.Version <= s.Current {
				continue
			}
			if err := m.step(ctx, step, +1); err != nil {
				return err
			}
			s.Current = step.Version
			step.Applied = true
			done = append(done, step)
		}
		return nil
	})
	return done, err
}

// Down takes back the newest applied steps, at most so many, and returns those that it
// took back. If any of them would destroy data and destroy is false, it changes nothing
// and returns a [*DestroysError].
func (m *Migrator) Down(ctx context.Context, steps int, destroy bool) (done []Migration, err error) {
	if steps < 1 {
		return nil, &fencing.InvalidError{What: "steps", Got: fmt.Sprint(steps), Allowed: "1 or more"}
	}
	err = m.locked(ctx, func(s Status) error {
		all := All(m.dialect)[:s.Current] // versions have no gaps
		all = all[max(0, len(all)-steps):]
		if err := mayDestroy(all, destroy); err != nil {
			return err
		}
		for i := len(all) - 1; i >= 0; i-- {
			if err := m.step(ctx, all[i], -1); err != nil {
				return err
			}
			done = append(done, all[i])
		}
		return nil
	})
	return done, err
}

func mayDestroy(steps []Migration, destroy bool) error {
	var lost []Migration
	for _, s := range steps {
		if s.Destroys != "" {
			lost = append(lost, s)
		}
	}
	if destroy || len(lost) == 0 {
		return nil
	}
	return &DestroysError{Steps: lost}
}

// Force writes down that the database has this version, and runs nothing: the way out of
// a [DirtyError], for somebody who has looked.
func (m *Migrator) Force(ctx context.Context, version uint) error {
	if latest := Latest(m.dialect); version > latest {
		return &fencing.InvalidError{What: "version", Got: fmt.Sprint(version), Allowed: fmt.Sprintf("0 to %d", latest)}
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return m.explain(stopped(ctx, err))
	}
	d, err := m.driver()
	if err == nil {
		err = setVersion(d, version)
	}
	return m.explain(errors.Join(err, unlock()))
}

// locked runs fn while no other process migrates, on a database that is neither half
// done, or was and has been settled, nor newer than this program.
func (m *Migrator) locked(ctx context.Context, fn func(Status) error) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return m.explain(stopped(ctx, err))
	}
	s, err := m.settle(ctx)
	if err == nil {
		err = m.usable(s)
	}
	if err == nil {
		err = fn(s)
	}
	return m.explain(errors.Join(err, unlock()))
}

// settle is Version, and corrects a note that a step was left half done. Golang-migrate
// notes it before the step and takes it back after it, in transactions of their own; the
// step's transaction writes the version too, so that one is the truth. Where it is none that
// a step to the noted version leads to or comes from, the note stays.
func (m *Migrator) settle(ctx context.Context) (Status, error) {
	s, err := m.Version(ctx)
	if err != nil || !s.Dirty {
		return s, err
	}
	has, err := m.applied(ctx)
	if err != nil {
		return s, err
	}
	if has+1 < s.Current || has > s.Current+1 {
		return s, nil
	}
	d, err := m.driver()
	if err == nil {
		err = setVersion(d, has)
	}
	if err != nil {
		return s, err
	}
	s.Current, s.Dirty = has, false
	return s, nil
}

func (m *Migrator) usable(s Status) error {
	switch {
	case s.Current > s.Latest:
		return &NewerError{Version: s.Current, Latest: s.Latest}
	case s.Dirty:
		return &DirtyError{Version: s.Current}
	}
	return nil
}

// step runs one step, up (+1) or down (-1). Where the database said no to something, the step
// or golang-migrate's notes before and after it, what the step wrote tells which.
func (m *Migrator) step(ctx context.Context, step Migration, direction int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d, err := m.driver()
	if err != nil {
		return err
	}
	src, err := iofs.New(files, string(m.dialect))
	if err != nil {
		return err
	}
	defer src.Close()
	mig, err := migrate.NewWithInstance("iofs", src, string(m.dialect), d)
	if err != nil {
		return err
	}
	if err = mig.Steps(direction); err == nil {
		return nil
	}
	err = cause(err)
	if m.refused(err) {
		after := step.Version
		if direction < 0 {
			after--
		}
		// Where this fails too, the note stays, and the next migrator settles it.
		if s, serr := m.settle(context.WithoutCancel(ctx)); serr == nil && !s.Dirty && s.Current == after {
			return nil
		}
	}
	return fmt.Errorf("step %s: %w", step.Name, err)
}

func setVersion(d database.Driver, v uint) error {
	if v == 0 {
		return cause(d.SetVersion(database.NilVersion, false))
	}
	return cause(d.SetVersion(int(v), false))
}

// cause returns what the database said: golang-migrate's error type does not unwrap, and
// prints the whole file.
func cause(err error) error {
	if e, ok := errors.AsType[database.Error](err); ok {
		return e.OrigErr
	}
	if e, ok := errors.AsType[*database.Error](err); ok {
		return e.OrigErr
	}
	return err
}

// stopped prefers the context's end to what it looks like in a driver.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

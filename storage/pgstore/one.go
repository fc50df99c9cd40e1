package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

// one carries out a commit of one operation as one statement: mark and record are checked,
// locked and written in one round trip. done is false if that is not possible, or if nothing
// was written: the statement does not say why, so the commit must go the long way.
func (b *Backend) one(ctx context.Context, conn *pgxpool.Conn, c storage.Commit) (v verdict, done bool) {
	if !b.direct || len(c.Ops) != 1 || len(c.Tokens) != 1 || c.Key != "" {
		return v, false
	}
	t, op := c.Tokens[0], c.Ops[0]
	var res storage.OpResult
	found, err := false, error(nil)
	switch op.Kind {
	case storage.KindPut:
		value := op.Value
		if value == nil {
			value = []byte{} // nil would be sent as NULL
		}
		found, err = pgtx.One(ctx, conn, []any{&res.Version}, putOneSQL, t.Resource, t.Number, t.Grant, op.Key, value)
		if !found && err == nil {
			found, err = pgtx.One(ctx, conn, []any{&res.Version}, putNewSQL, t.Resource, t.Number, t.Grant, op.Key, value)
		}
		if !found && err == nil {
			return b.whyNot(ctx, conn, t)
		}
	case storage.KindAdd:
		found, err = pgtx.One(ctx, conn, []any{&res.Version, &res.Counter}, addOneSQL, t.Resource, t.Number, t.Grant, op.Key, op.Delta, op.Min)
	}
	switch {
	case err == nil && !found, fencing.OutcomeOf(err) == fencing.Failed:
		return v, false
	case err != nil:
		return verdict{Outcome: storage.Outcome{Err: err}}, true
	}
	return verdict{Outcome: storage.Outcome{Result: storage.Result{Ops: []storage.OpResult{res}}}}, true
}

// whyNot tells a token that is not the mark; it needs no lock for that, for a mark never goes
// back. Else the mark was locked, or has moved: the long way finds out.
func (b *Backend) whyNot(ctx context.Context, conn *pgxpool.Conn, t fencing.Token) (verdict, bool) {
	var m fencing.Mark
	if err := conn.QueryRow(ctx, marksSQL, []string{t.Resource}).Scan(nil, &m.Number, &m.Grant, &m.Retired); err != nil {
		return verdict{}, false
	}
	if err := m.Current(t); err != nil {
		return verdict{Outcome: storage.Outcome{Err: err}}, true
	}
	return verdict{Outcome: storage.Outcome{Err: fencing.AsFailed(errBusy)}, next: busy}, true
}

package pgguard

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

var (
	//go:embed sql/enter_one.sql
	enterOneSQL string
	//go:embed sql/enter.sql
	enterSQL string
)

// Enter is the first statement of a transaction that the caller owns: it goes on only if every
// token is the mark, and no newer token is raised before the transaction ends. It takes one
// round trip. One token for each resource, any number of resources, in one call: a second call
// of the same transaction takes locks out of order, and may end in a deadlock.
//
// The transaction may have any isolation level. At REPEATABLE READ and SERIALIZABLE a snapshot that is
// older than the token fails: roll back and try again.
//
// The error is a [*fencing.StaleError], a [*fencing.InvalidError], or failed. A connection that
// sends parameters in the text of statements (pgx.QueryExecModeSimpleProtocol) is refused.
func Enter(ctx context.Context, tx pgx.Tx, tokens ...fencing.Token) error {
	query, args, err := statement(tokens)
	if err != nil {
		return err
	}
	if c := tx.Conn(); c != nil && c.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return &fencing.InvalidError{
			What: "DefaultQueryExecMode of the connection", Got: "simple protocol",
			Allowed: "any mode with bind parameters (behind a transaction pooler: exec)",
		}
	}
	_, err = tx.Exec(ctx, query, args...)
	return entered(err, tokens)
}

// SQLTx is what [EnterSQL] needs of a transaction: *sql.Tx has it, and so have the transactions
// of libraries on top of it (GORM: tx.Statement.ConnPool).
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// EnterSQL is [Enter] for a transaction of database/sql, with any driver that numbers parameters
// $1, $2. A *sql.DB is refused: there, the next statement is another transaction.
//
// Whether the driver sends parameters apart from the text it cannot see; pgx's does unless it is
// told to use the simple protocol.
func EnterSQL(ctx context.Context, tx SQLTx, tokens ...fencing.Token) error {
	query, args, err := statement(tokens)
	if err != nil {
		return err
	}
	if _, pool := tx.(*sql.DB); pool {
		return &fencing.InvalidError{What: "transaction", Got: "*sql.DB", Allowed: "a transaction, like *sql.Tx"}
	}
	_, err = tx.ExecContext(ctx, query, args...)
	return entered(err, tokens)
}

// Queue is [Enter] for a batch: queued first, it saves the round trip. A batch that is sent
// outside of a transaction is one of its own. Where a token is refused, nothing behind it is run,
// and reading the batch's first result returns the error that [Explain] understands.
func Queue(b *pgx.Batch, tokens ...fencing.Token) error {
	query, args, err := statement(tokens)
	if err != nil {
		return err
	}
	b.Queue(query, args...)
	return nil
}

// statement returns what is sent for the tokens. No part of a token has a comma.
func statement(tokens []fencing.Token) (query string, args []any, err error) {
	if len(tokens) == 0 {
		return "", nil, &fencing.InvalidError{What: "tokens", Allowed: "one or more"}
	}
	var resources, texts []string
	seen := map[string]bool{}
	for _, t := range tokens {
		if err := t.Validate(); err != nil {
			return "", nil, err
		}
		if seen[t.Resource] {
			return "", nil, &fencing.InvalidError{What: "tokens", Allowed: "one for " + t.Resource + ", not two"}
		}
		seen[t.Resource] = true
		resources, texts = append(resources, t.Resource), append(texts, t.Text())
	}
	if len(tokens) == 1 {
		return enterOneSQL, []any{resources[0], texts[0]}, nil
	}
	return enterSQL, []any{strings.Join(resources, ","), strings.Join(texts, ",")}, nil
}

// entered judges an error of enter, after which COMMIT has surely not been sent.
func entered(err error, tokens []fencing.Token) error {
	if err == nil {
		return nil
	}
	if refused := refusal(err, tokens); refused != nil {
		return refused
	}
	return pgtx.Before(err, false)
}

// Package pgguard is fencing in your own Postgres tables: a guarded table takes writes only from
// transactions that entered with the token of the row's resource, whatever language or library
// they come from.
//
// The work is done by functions and triggers of the schema fencegate (migration 0007). In SQL it is
// two lines, one once and one per transaction:
//
//	select fencegate.protect('public.coupons', 'coupon:', 'id');
//	select fencegate.enter($1, $2);  -- 'coupon:42', '34.<grant id>'
//
// [Protect], [Unprotect] and [Status] are the first for Go, [SQL] for a migration tool, [Enter],
// [EnterSQL] and [Queue] the second; [Explain] turns the errors into those of package fencing.
//
// # Guarantees
//
//   - A row of a guarded table is inserted, changed or deleted only in a transaction that has a
//     token of the row's resource, and that token is the mark until the transaction ends. A row
//     that moves from one resource to another needs the tokens of both.
//   - That holds for COPY, MERGE, ON CONFLICT, cascades, writes through views and to partitions,
//     and in sessions with session_replication_role = replica. TRUNCATE is refused.
//   - A transaction that has entered keeps raises, retirements and evictions of its resource out
//     until it ends. The server ends it when it sits idle for longer than the schema's max_idle_ms
//     (5 s); one that is busy for longer is ended by who raises (see package pgstore).
//
// # What is not guaranteed
//
// The owner of a table and superusers can take its guard away: applications must log in as somebody
// else. One role is one trust domain: whoever can read another's token can use it. DDL is not
// checked. What was read before Enter may be old. [Status] tells of what it can see of this.
//
// The token is a secret and is sent as a parameter. A server that logs parameters logs it, and
// statements with the token as a literal in their text are logged like any other.
//
// # Clocks
//
// None decides. Timeouts are the server's and the context's.
//
// # Errors
//
// Enter, EnterSQL and Explain: [*fencing.StaleError] where a token is not the mark,
// [*RefusedError] where a write had no token or no resource, [*fencing.InvalidError]; else failed
// or unknown as in package fencing. After any error the transaction can only be rolled back.
//
// Protect, Unprotect and Status: [ErrSchema] where "fencegate migrate up" has not been run, the
// server's own error where it refuses.
package pgguard

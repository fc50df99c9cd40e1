package locking

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Validate checks every field. The error is a [*fencing.InvalidError].
func (r Request) Validate() error {
	if err := fencing.ValidateResource(r.Resource); err != nil {
		return err
	}
	if err := fencing.ValidateGrant(r.Grant); err != nil {
		return err
	}
	if err := ValidateTTL(r.TTL); err != nil {
		return err
	}
	if r.Floor < 0 || r.Floor > fencing.MaxNumber {
		return &fencing.InvalidError{What: "floor", Allowed: "0 to 9007199254740991"}
	}
	return validateLabel(r.Label)
}

// ValidateTransfer checks every field, and that the lock can pass to the request from the
// hold of t: the same resource and another grant. The error is a [*fencing.InvalidError].
func (r Request) ValidateTransfer(t fencing.Token) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := validateHeld(t); err != nil {
		return err
	}
	if t.Resource != r.Resource || t.Grant == r.Grant {
		return &fencing.InvalidError{What: "transfer", Allowed: "between two grants of one resource"}
	}
	return nil
}

// ValidateTTL checks that d is in MinTTL..MaxTTL and in whole milliseconds, which is what
// lock stores count in. The error is a [*fencing.InvalidError].
func ValidateTTL(d time.Duration) error {
	if d <= 0 {
		return &fencing.InvalidError{What: "TTL", Got: d.String(), Allowed: "100ms to 1h: a lock without a time limit stays locked for ever when its holder dies"}
	}
	if d < MinTTL || d > MaxTTL || d%time.Millisecond != 0 {
		return &fencing.InvalidError{What: "TTL", Got: d.String(), Allowed: "100ms to 1h, in whole milliseconds"}
	}
	return nil
}

func validateLabel(label string) error {
	ok := len(label) <= 200
	for i := 0; ok && i < len(label); i++ {
		ok = label[i] >= ' ' && label[i] <= '~'
	}
	if ok {
		return nil
	}
	return &fencing.InvalidError{What: "label", Allowed: "at most 200 characters of printable ASCII"}
}

// String hides the grant id.
func (r Request) String() string {
	return fmt.Sprintf("%s (ttl %v, wait %v, floor %d)", r.Resource, r.TTL, r.Wait, r.Floor)
}

// Format hides the grant id from every verb.
func (r Request) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue hides the grant id from log/slog.
func (r Request) LogValue() slog.Value {
	return slog.GroupValue(slog.String("resource", r.Resource), slog.String("label", r.Label), slog.Duration("ttl", r.TTL))
}

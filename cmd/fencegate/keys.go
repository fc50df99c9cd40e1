package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
)

// keysCmd looks after the keys of a gateway's callers.
type keysCmd struct {
	Add    keysAddCmd    `cmd:"" help:"Make a key, and print it: this once."`
	List   keysListCmd   `cmd:"" help:"List the keys, without their secrets."`
	Rotate keysRotateCmd `cmd:"" help:"Make a key in place of another one, and print it: this once."`
	Remove keysRemoveCmd `cmd:"" help:"Take a key away."`
}

// Help implements kong.HelpProvider.
func (keysCmd) Help() string {
	return "A key is sent as Authorization: Bearer KEY. The file has its hash, its scopes and the prefixes of the resources that it covers. " +
		"A running gateway sees a change within a second or so, and keeps the keys that it has while the file is missing or broken. " +
		"The file must be nobody's to write but its owner's."
}

// keysFlags name the file.
type keysFlags struct {
	File string `required:"" placeholder:"FILE" env:"FENCEGATE_KEYS" help:"The file of keys, as in fencegate serve --keys."`
	outputFlag
}

// AfterApply implements kong's hook: a variable may be set to nothing.
func (f keysFlags) AfterApply() error {
	if f.File == "" {
		return errors.New("--file is needed")
	}
	return nil
}

// shownKey is a key in JSON.
type shownKey struct {
	ID       string     `json:"id"`
	Key      string     `json:"key,omitempty"` // the secret
	Scopes   []string   `json:"scopes"`
	Prefixes []string   `json:"prefixes,omitempty"`
	Rate     float64    `json:"rate,omitempty"`
	Label    string     `json:"label,omitempty"`
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires,omitempty"`
	Expired  bool       `json:"expired,omitempty"`
}

func showKey(e apikey.Entry, text string) shownKey {
	s := shownKey{
		ID: e.ID, Key: text, Scopes: e.Scopes.Names(), Prefixes: e.Prefixes, Rate: e.Rate, Label: e.Label,
		Created: e.Created, Expired: e.Expired(time.Now()),
	}
	if !e.Expires.IsZero() {
		s.Expires = &e.Expires
	}
	return s
}

// printNew prints a new key: the text alone on stdout, so that a script can take it. A key whose
// text nobody has is taken away again.
func (f keysFlags) printNew(ctx context.Context, std stdio, e apikey.Entry, text string) (err error) {
	if f.Output == "json" {
		err = writeJSON(std.out, showKey(e, text))
	} else {
		_, err = fmt.Fprintln(std.out, text)
	}
	if err != nil {
		if removed := apikey.Remove(context.WithoutCancel(ctx), f.File, e.ID); removed != nil {
			return fmt.Errorf("key %s is in %s, but its text could not be printed (%w), and it could not be removed again: %w", e.ID, f.File, err, removed)
		}
		return fmt.Errorf("the new key %s could not be printed, and was removed again: %w", e.ID, err)
	}
	fmt.Fprintf(std.err, "key %s is in %s; its text is shown this once\n", e.ID, f.File)
	return nil
}

// explain gives an error of the file its exit status.
func (f keysFlags) explain(id string, err error) error {
	_, invalid := errors.AsType[*fencing.InvalidError](err)
	switch {
	case errors.Is(err, apikey.ErrNoKey):
		return fmt.Errorf("%s has no key %s", f.File, id)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s cannot be read: no such file: fencegate keys add makes one", f.File)
	case invalid && !strings.Contains(err.Error(), f.File):
		return usageError{err} // of the flags; what is invalid in the file is said with its name
	}
	return err
}

type keysAddCmd struct {
	Scope   []string `required:"" placeholder:"SCOPE" env:"FENCEGATE_KEYS_SCOPE" help:"What the key may do: lock, write, read, admin, with commas or repeated."`
	Prefix  []string `placeholder:"PREFIX" env:"FENCEGATE_KEYS_PREFIX" help:"It covers the resources whose names begin so, such as coupon:, with commas or repeated. Default: all resources."`
	Rate    float64  `placeholder:"N" env:"FENCEGATE_KEYS_RATE" help:"Requests a second, 0.001 to 1000000. Default: the gateway's."`
	Label   string   `placeholder:"TEXT" env:"FENCEGATE_KEYS_LABEL" help:"What it is for, up to 200 characters of printable ASCII."`
	Expires string   `placeholder:"WHEN" env:"FENCEGATE_KEYS_EXPIRES" help:"From when on it is refused: an age such as 720h, or a time such as 2027-01-31T12:00:00Z. Default: never."`
	keysFlags
}

// Run implements the command.
func (c *keysAddCmd) Run(ctx context.Context, std stdio) error {
	scopes, err := apikey.ParseScope(c.Scope)
	if err != nil {
		return usageError{err}
	}
	expires, err := parseExpiry(c.Expires, time.Now())
	if err != nil {
		return usageError{err}
	}
	e := apikey.Entry{Key: apikey.Key{Scopes: scopes, Prefixes: c.Prefix, Rate: c.Rate}, Label: c.Label, Expires: expires}
	e, text, err := apikey.Add(ctx, c.File, e)
	if err != nil {
		return c.explain("", err)
	}
	return c.printNew(ctx, std, e, text)
}

// parseExpiry reads an age or a time, which must lie ahead.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if age, ageErr := time.ParseDuration(s); ageErr == nil {
		t, err = now.Add(age), nil
	}
	if t = t.UTC().Truncate(time.Second); err != nil || !t.After(now) {
		return t, &fencing.InvalidError{
			What: "expiry", Got: strconv.QuoteToASCII(s),
			Allowed: "an age such as 720h or a time such as 2027-01-31T12:00:00Z, ahead by a second or more",
		}
	}
	return t, nil
}

type keysListCmd struct {
	keysFlags
}

// Run implements the command.
func (c *keysListCmd) Run(std stdio) error {
	list, err := apikey.List(c.File)
	if err != nil {
		return c.explain("", err)
	}
	if c.Output == "json" {
		out := struct {
			Keys []shownKey `json:"keys"`
		}{Keys: make([]shownKey, len(list))}
		for i, e := range list {
			out.Keys[i] = showKey(e, "")
		}
		return writeJSON(std.out, out)
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSCOPES\tPREFIXES\tRATE\tCREATED\tEXPIRES\tLABEL")
	for _, e := range list {
		prefixes, rate, expires := "(all)", "(default)", "never"
		if len(e.Prefixes) > 0 {
			prefixes = strings.Join(e.Prefixes, ",")
		}
		if e.Rate > 0 {
			rate = strconv.FormatFloat(e.Rate, 'g', -1, 64)
		}
		if !e.Expires.IsZero() {
			expires = e.Expires.Format(time.RFC3339)
		}
		if e.Expired(time.Now()) {
			expires += " (expired)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.Scopes, prefixes, rate, e.Created.Format(time.RFC3339), expires, e.Label)
	}
	return w.Flush()
}

type keysRotateCmd struct {
	ID    string        `arg:"" help:"The key's ID, as in fencegate keys list."`
	Grace time.Duration `default:"24h" env:"FENCEGATE_KEYS_GRACE" help:"For how long the old key is still good, 0s or more (default: ${default})."`
	keysFlags
}

// Help implements kong.HelpProvider.
func (keysRotateCmd) Help() string {
	return "The new key has the scopes, prefixes, rate and label of the old one, and its lifetime if it has one. " +
		"Give the new key to its bearers within --grace; then the old one has expired, and can be removed."
}

// Run implements the command.
func (c *keysRotateCmd) Run(ctx context.Context, std stdio) error {
	if c.Grace < 0 {
		return usageError{&fencing.InvalidError{What: "grace", Got: c.Grace.String(), Allowed: "0s or more"}}
	}
	e, text, err := apikey.Rotate(ctx, c.File, c.ID, c.Grace)
	if err != nil {
		return c.explain(c.ID, err)
	}
	fmt.Fprintf(std.err, "key %s expires after %v at the latest\n", c.ID, c.Grace)
	return c.printNew(ctx, std, e, text)
}

type keysRemoveCmd struct {
	ID string `arg:"" help:"The key's ID, as in fencegate keys list."`
	keysFlags
}

// Run implements the command.
func (c *keysRemoveCmd) Run(ctx context.Context, std stdio) error {
	if err := apikey.Remove(ctx, c.File, c.ID); err != nil {
		return c.explain(c.ID, err)
	}
	fmt.Fprintf(std.err, "key %s was removed; a running gateway refuses it within a second or so\n", c.ID)
	if c.Output == "json" {
		return changes.printed(writeJSON(std.out, struct {
			Removed string `json:"removed"`
		}{c.ID}))
	}
	return nil
}

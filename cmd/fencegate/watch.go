package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/wire"
)

type watchCmd struct {
	URL         []string      `name:"url" placeholder:"URL" env:"FENCEGATE_URL" help:"The gateway, http or https; with commas, several replicas of one."`
	APIKeyFile  string        `name:"api-key-file" placeholder:"FILE" env:"FENCEGATE_API_KEY_FILE" help:"Where the gateway's API key is. The key itself may be in the variable FENCEGATE_API_KEY."`
	InsecureKey bool          `env:"FENCEGATE_INSECURE_KEY" help:"Send the API key over plain http to other machines, too."`
	Timeout     time.Duration `default:"15s" env:"FENCEGATE_TIMEOUT" help:"How long to wait for the gateway's first answer (default: ${default})."`

	Resource string   `env:"FENCEGATE_WATCH_RESOURCE" help:"Only what happens to this resource."`
	Prefix   string   `env:"FENCEGATE_WATCH_PREFIX" help:"Only what happens to resources that begin with it."`
	Kind     []string `enum:"granted,reissued,regression,raised,renewed,released,evicted,lost,applied,replayed,read,refused,failed,unknown" env:"FENCEGATE_WATCH_KIND" help:"Only events of these kinds: ${enum}."`
	SinceID  string   `name:"since-id" placeholder:"ID" env:"FENCEGATE_WATCH_SINCE_ID" help:"Only what came after this event; ids are in the JSON. Default: from now on."`
	outputFlag
}

// Help implements kong.HelpProvider.
func (watchCmd) Help() string {
	return "A line for each event of one gateway, until it is interrupted. A connection that breaks is made anew and goes on where it was; " +
		"what the gateway no longer remembers is missing, and that is said. It needs --url: servers alone tell nobody."
}

// Run implements the command.
func (c *watchCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if c.Resource != "" && c.Prefix != "" {
		return usageError{errors.New("--resource and --prefix: which of the two?")}
	}
	for _, name := range []string{c.Resource, c.Prefix} {
		if name == "" {
			continue
		}
		if err := fencing.ValidateResource(name); err != nil {
			return usageError{err}
		}
	}
	if len(c.URL) == 0 {
		return usageError{errors.New("only a gateway has events: --url, or FENCEGATE_URL")}
	}
	f := targetFlags{URL: c.URL, APIKeyFile: c.APIKeyFile, InsecureKey: c.InsecureKey, Timeout: c.Timeout}
	t, err := f.open(ctx, k, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	r := client.EventsRequest{Resource: c.Resource, Prefix: c.Prefix, After: c.SinceID}
	for _, kind := range c.Kind {
		r.Kinds = append(r.Kinds, fencing.EventKind(kind))
	}
	for e, err := range t.gateway.Events(ctx, r) {
		if err != nil {
			return reads.of(err)
		}
		if err := c.print(std.out, e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// watched is an event as JSON. The kind gap stands for events that are missing.
type watched struct {
	ID string `json:"id,omitempty"`
	wire.Event
	Missed *wire.Int `json:"missed,omitempty"`
}

func (c *watchCmd) print(w io.Writer, e client.Event) error {
	if c.Output == "text" {
		_, err := fmt.Fprintln(w, line(e))
		return err
	}
	out := watched{ID: e.ID, Event: wire.Event{
		Time: e.Time, Kind: e.Kind, Attempt: e.Attempt, Resource: e.Resource, Number: wire.Int(e.Number), Reason: e.Reason, Label: e.Label,
	}}
	if e.Highest > 0 {
		out.Highest = wire.Ptr(e.Highest)
	}
	if e.Elapsed > 0 {
		out.Elapsed = wire.Span(e.Elapsed)
	}
	if e.Missed > 0 {
		out.Missed = wire.Ptr(e.Missed)
	}
	return writeJSON(w, out)
}

// line is an event as text.
func line(e client.Event) string {
	if e.Kind == client.KindGap {
		if e.Missed > 0 {
			return fmt.Sprintf("-- %d events are missing here --", e.Missed)
		}
		return "-- events may be missing here --"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-10s %s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Kind, e.Resource)
	if e.Number > 0 {
		fmt.Fprintf(&b, "#%d", e.Number)
	}
	if e.Attempt != "" {
		fmt.Fprintf(&b, " attempt=%s", e.Attempt)
	}
	if e.Highest > 0 {
		fmt.Fprintf(&b, " highest=%d", e.Highest)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, " reason=%q", e.Reason)
	}
	if e.Label != "" {
		fmt.Fprintf(&b, " label=%q", e.Label)
	}
	if e.Elapsed > 0 {
		fmt.Fprintf(&b, " elapsed=%v", e.Elapsed.Round(time.Microsecond))
	}
	return b.String()
}

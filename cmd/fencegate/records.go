package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// recordsCmd reads and writes records.
type recordsCmd struct {
	Get    recordsGetCmd    `cmd:"" help:"Print a record's value."`
	Put    recordsPutCmd    `cmd:"" help:"Set a record."`
	Delete recordsDeleteCmd `cmd:"" help:"Remove a record."`
	Add    recordsAddCmd    `cmd:"" help:"Add to a counter, and print the sum."`
	List   recordsListCmd   `cmd:"" help:"List the records of a resource."`
}

// Help implements kong.HelpProvider.
func (recordsCmd) Help() string {
	return "A record is a value under a resource and a key. Reading needs no token; writing needs the resource's, " +
		"or --wait to take the lock for the one write." + handHelp + " " + exitHelp
}

type recordsGetCmd struct {
	Resource string `arg:"" help:"Whose record."`
	Key      string `arg:"" help:"Which one."`
	Fenced   bool   `env:"FENCEGATE_RECORDS_FENCED" help:"Read with the token: refused unless it is current. What is written back must have been read so, or after the lock was taken."`
	tokenFlags
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (recordsGetCmd) Help() string {
	return "The value goes to standard output as it is, with nothing added. A record that is not there is status 76. " +
		"As JSON, the value is base64." + handHelp + targetHelp
}

// Run implements the command.
func (c *recordsGetCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if err := errors.Join(fencing.ValidateResource(c.Resource), fencing.ValidateKey(c.Key)); err != nil {
		return usageError{err}
	}
	var token fencing.Token
	if c.Fenced {
		if token, err = c.must(c.Resource, std.in); err != nil {
			return err
		}
	}
	t, err := c.open(ctx, k, needStore)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	var rec storage.Record
	if c.Fenced {
		rec, err = t.store.GetFenced(bound, token, c.Key)
	} else {
		rec, err = t.store.Get(bound, c.Resource, c.Key)
	}
	if err != nil {
		return reads.of(err)
	}
	if c.Output == "json" {
		return writeJSON(std.out, wire.Record{Key: rec.Key, Value: rec.Value, Version: wire.Int(rec.Version)})
	}
	_, err = std.out.Write(rec.Value)
	return err
}

type recordsListCmd struct {
	Resource string `arg:"" help:"Whose records."`
	pageFlags
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (recordsListCmd) Help() string {
	return "Sorted by key. It is a plain read; of long values the beginning is shown, and all of them as JSON, in base64." + targetHelp
}

// Run implements the command.
func (c *recordsListCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if err := fencing.ValidateResource(c.Resource); err != nil {
		return usageError{err}
	}
	if err := c.valid(); err != nil {
		return err
	}
	t, err := c.open(ctx, k, needStore)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	list, err := t.store.List(bound, c.Resource, c.Prefix, c.After, c.Limit)
	if err != nil {
		return reads.of(err)
	}
	next := c.next(len(list), func() string { return list[len(list)-1].Key })
	if c.Output == "json" {
		out := wire.RecordList{Records: make([]wire.Record, len(list)), Next: next}
		for i, rec := range list {
			out.Records[i] = wire.Record{Key: rec.Key, Value: rec.Value, Version: wire.Int(rec.Version)}
		}
		return writeJSON(std.out, out)
	}
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVERSION\tBYTES\tVALUE")
	for _, rec := range list {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", rec.Key, rec.Version, len(rec.Value), shown(rec.Value))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	more(std, next)
	return nil
}

// shown is a value's beginning, in quotes: a value may be any bytes, and a terminal obeys some.
func shown(value []byte) string {
	const most = 50
	cut := ""
	if len(value) > most {
		value, cut = value[:most], "..."
	}
	return strconv.QuoteToASCII(string(value)) + cut
}

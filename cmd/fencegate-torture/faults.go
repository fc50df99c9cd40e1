package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/report"
)

type faultsCmd struct {
	Output string `enum:"text,json" default:"text" env:"FENCEGATE_TORTURE_OUTPUT" help:"How they are printed: ${enum}; json is a line each."`
}

// Run implements the command.
func (c *faultsCmd) Run(std stdio) error {
	for i, f := range fault.All() {
		var err error
		if c.Output == "json" {
			err = json.NewEncoder(std.out).Encode(struct {
				Name     string   `json:"name"`
				What     string   `json:"what"`
				Expect   string   `json:"expect"`
				Fits     []string `json:"fits"`
				Destroys bool     `json:"destroys"`
				Own      bool     `json:"private_servers_only"`
				Command  string   `json:"command"`
			}{f.Name, f.What, f.Expect, rigsOf(f), f.Destroys, f.Own, commandOf(f)})
		} else {
			if i > 0 {
				fmt.Fprintln(std.out)
			}
			text := fmt.Sprintf("%s\n  happens  %s\n  must     %s\n  fits     %s\n", f.Name, f.What, f.Expect, strings.Join(rigsOf(f), "; "))
			switch {
			case f.Own:
				text += "  note     on private servers only\n"
			case f.Destroys:
				text += "  note     can destroy data: on servers of yours it needs --allow\n"
			}
			_, err = fmt.Fprint(std.out, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rigsOf names where a fault fits, of what a proof goes through.
func rigsOf(f fault.Fault) (names []string) {
	for _, s := range torture.Pairs() {
		if f.Fits(s) {
			names = append(names, report.PairName(s.Lock, s.Store, s.Gateways))
		}
	}
	return names
}

// commandOf makes a fault where it fits first.
func commandOf(f fault.Fault) string {
	for _, s := range torture.Pairs() {
		if !f.Fits(s) {
			continue
		}
		command := fmt.Sprintf("fencegate-torture --lock %s --store %s", s.Lock, s.Store)
		if s.Gateways > 1 {
			command += fmt.Sprintf(" --gateways %d", s.Gateways)
		}
		return command + " --faults " + f.Name
	}
	return "fencegate-torture --faults " + f.Name
}

// kinds are all faults as the tables show them.
func kinds() (list []report.Kind) {
	for _, f := range fault.All() {
		list = append(list, report.Kind{Name: f.Name, What: f.What, Expect: f.Expect, Rigs: rigsOf(f), Command: commandOf(f)})
	}
	return list
}

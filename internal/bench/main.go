// Bench measures this project against its goals and its peers. It starts private servers of
// its own, shows its progress, prints a table, and writes results/<group>.json, .txt and
// charts. It reports and judges nothing: goals that are missed are no error.
//
//	make bench                all groups
//	make bench ONLY=storage   one of them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fencegate/fencegate/internal/bench/http"
	"github.com/fencegate/fencegate/internal/bench/locks"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/bench/storage"
	"github.com/fencegate/fencegate/internal/testenv"
)

// group is a set of benchmarks with a results file of its own. run adds to the report, all
// parts of the group or one; what fails is in the report too.
type group struct {
	name string
	run  func(ctx context.Context, r *report.Report, part string)
}

var groups = []group{{"locks", locks.Run}, {"storage", storage.Run}, {"http", http.Run}}

func main() {
	if len(os.Args) > 1 && os.Args[1] == http.ServerArgument { // a process that the group http started
		os.Exit(http.Serve(os.Args[2:]))
	}
	os.Exit(testenv.Run(program{}))
}

type program struct{}

// Run implements what testenv.Run runs; the servers end after it.
func (program) Run() int {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func run(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "groups to run, with commas between them: "+names()+"; locks/drain runs one part and writes nothing")
	dir := flags.String("results", "results", "the directory to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once

	chosen := strings.FieldsFunc(*only, func(c rune) bool { return c == ',' || c == ' ' })
	for _, name := range chosen {
		name, _, _ = strings.Cut(name, "/")
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			return fmt.Errorf("no group %q; there is %s", name, names())
		}
	}
	for _, g := range groups {
		parts := []string{""}
		if len(chosen) > 0 {
			parts = nil
		}
		for _, name := range chosen {
			if name, part, _ := strings.Cut(name, "/"); name == g.name {
				parts = append(parts, part)
			}
		}
		for _, part := range parts {
			if err := runGroup(ctx, g, part, *dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func names() string {
	var list []string
	for _, g := range groups {
		list = append(list, g.name)
	}
	return strings.Join(list, ", ")
}

// runGroup runs a group, or one part of it, and writes its results if they are complete.
func runGroup(ctx context.Context, g group, part, dir string) error {
	r := report.New(os.Stdout)
	machine := ""
	err := rig.Run(func(h *rig.Host) error {
		machine = rig.Machine(ctx, h)
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Println(machine)
	g.run(ctx, r, part)
	table := machine + "\n\n" + r.Table()
	fmt.Printf("\n%s\n", table)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; results/ is as it was")
	case part != "":
		fmt.Println("one part only: results/ is as it was")
		return nil
	}
	return write(r, g.name, dir, table)
}

func write(r *report.Report, name, dir, table string) error {
	list, err := r.JSON()
	if err != nil {
		return err
	}
	files := map[string][]byte{name + ".json": list, name + ".txt": []byte(table)}
	for _, chart := range r.Charts(name) {
		if files[chart.File+".svg"], err = chart.SVG(); err != nil {
			return err
		}
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return err
		}
	}
	fmt.Printf("written to %s: %s.json, %s.txt and %d charts\n", dir, name, name, len(files)-2)
	return nil
}

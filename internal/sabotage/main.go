package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sabotage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("sabotage", flag.ContinueOnError)
	only := flags.String("only", "", "a group (storage), or one patch (storage/retired-is-plain)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	here := filepath.Join("internal", "sabotage") // go run and make start in the project's root
	patches, err := load(here, *only)
	if err != nil {
		return err
	}
	// A test that fails anyway catches nothing.
	sound := map[string]bool{}
	for _, p := range patches {
		for _, args := range p.tests {
			line := strings.Join(args, " ")
			if sound[line] {
				continue
			}
			sound[line] = true
			if out, err := goTest(ctx, args); err != nil {
				return fmt.Errorf("%s: without it, go test %s: %w\n%s", p.name, line, err, out)
			}
		}
	}
	if err := soundRuns(ctx, patches, sound); err != nil {
		return err
	}
	var survived []string
	for i, p := range patches {
		start := time.Now()
		caught, output, err := p.try(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "caught"
		switch {
		case err != nil:
			verdict, output = "ERROR", err.Error()+"\n"+output
		case !caught:
			verdict = "SURVIVED"
		}
		fmt.Printf("%2d/%d  %-8s  %-38s %s (%.0f s)\n", i+1, len(patches), verdict, p.name, p.what, time.Since(start).Seconds())
		if verdict == "caught" && output != "" {
			fmt.Println("      |", output)
		}
		if verdict != "caught" {
			survived = append(survived, p.name)
			fmt.Println(indent(output))
		}
	}
	if len(survived) > 0 {
		return fmt.Errorf("%d of %d were not caught: %s", len(survived), len(patches), strings.Join(survived, ", "))
	}
	fmt.Printf("all %d were caught\n", len(patches))
	return nil
}

// soundRuns makes the runs of all patches without any: what finds something anyway catches nothing.
func soundRuns(ctx context.Context, patches []patch, sound map[string]bool) error {
	var built programs
	for _, p := range patches {
		for _, args := range p.runs {
			line := strings.Join(args, " ")
			if sound["run "+line] {
				continue
			}
			sound["run "+line] = true
			if built.machine == "" {
				dir, err := os.MkdirTemp("", "sabotage-")
				if err != nil {
					return err
				}
				defer func() { _ = os.RemoveAll(dir) }()
				if built, err = build(ctx, dir, ""); err != nil {
					return err
				}
			}
			verdict, out, err := built.torture(ctx, calm, args)
			if err == nil && verdict != held {
				err = fmt.Errorf("the verdict is %s", verdict)
			}
			if err != nil {
				return fmt.Errorf("%s: without it, fencegate-torture run %s: %w\n%s", p.name, line, err, out)
			}
		}
	}
	return nil
}

func indent(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	const most = 40
	if len(lines) > most {
		lines = append([]string{"..."}, lines[len(lines)-most:]...)
	}
	return "      | " + strings.Join(lines, "\n      | ")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fencegate/fencegate/internal/diagram"
)

// visit shows the exhibits of o one after the other. The error says which did not end as they must.
func visit(ctx context.Context, o options, out io.Writer) error {
	s, err := newServers()
	if err != nil {
		return err
	}
	defer s.close()
	w, what, err := open(ctx, o, s)
	if err != nil {
		return err
	}
	if len(what) == 0 {
		what = []string{"no server"}
	}
	fmt.Fprintln(out, fold("The museum of broken locks, on "+strings.Join(what, ", ")+".", diagram.Width))
	colour := colours(out)
	var shown, hidden int
	var failed []string
	for i, e := range o.exhibits {
		fmt.Fprintf(out, "\n%s\n%d. %s  (%s)\n\n", strings.Repeat("═", diagram.Width), i+1, e.Title, e.Name)
		fmt.Fprintln(out, fold(strings.Join(e.Words, " "), diagram.Width))
		fmt.Fprintln(out, fold("Seen: "+e.Seen+".", diagram.Width))
		err := show(ctx, w, e, out, colour)
		var missing *errNotHere
		switch {
		case errors.As(err, &missing):
			hidden++
			fmt.Fprintf(out, "\nnot shown: %v\n", missing)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failed = append(failed, e.Name)
			fmt.Fprintf(out, "\nTHIS EXHIBIT DID NOT END AS IT MUST: %v\n", err)
		default:
			shown++
		}
	}
	fmt.Fprintf(out, "\n%s\n%d of %d exhibits were shown: each did its damage first, and lost nothing the second time.\n",
		strings.Repeat("═", diagram.Width), shown, len(o.exhibits))
	if hidden > 0 {
		fmt.Fprintf(out, "%d not shown, for want of a server.\n", hidden)
	}
	if len(failed) > 0 {
		return fmt.Errorf("not as it must be: %s", strings.Join(failed, ", "))
	}
	return nil
}

// show tells one exhibit twice.
func show(ctx context.Context, w *World, e Exhibit, out io.Writer, colour bool) error {
	first, err := w.Play(ctx, e, false)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\nA store that takes every write\n\n")
	if err := first.Diagram.Text(out, colour); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", fold("DAMAGE: "+first.Damage+".", diagram.Width))
	second, err := w.Play(ctx, e, true)
	if err != nil {
		return err
	}
	heading := e.Second
	if heading == "" {
		heading = "The same lock, and a store that checks the numbers"
	}
	fmt.Fprintf(out, "\n%s\n\n", heading)
	if err := second.Diagram.Text(out, colour); err != nil {
		return err
	}
	if err := judge(e, first, second); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", fold(verdict(e, second), diagram.Width))
	return nil
}

// verdict is what the second telling came to, in a line.
func verdict(e Exhibit, s Seen) string {
	said := fmt.Sprintf("othing lost: by the %s it is %d %s, and the store says %d",
		plural(s.Accepted, "acknowledged write", "acknowledged writes"), s.CounterOK, e.Thing.unit(), s.CounterIs)
	if s.Refused > 0 {
		return plural(s.Refused, "write", "writes") + " refused, n" + said + "."
	}
	return "N" + said + "."
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// fold breaks text into lines of at most width characters.
func fold(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// colours says whether out is a terminal whose user has not asked for none.
func colours(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// FuzzConfig reads command lines, one argument a line, and variables, NAME=value a line, as every
// command does before it starts. Nothing is run. Whatever they are, they are accepted or refused
// with a text; a value of a variable that may be a secret is not repeated.
func FuzzConfig(f *testing.F) {
	for _, s := range [][2]string{
		{"serve", ""},
		{"serve\n--lock\nredis\n--redis-url\nredis://localhost", ""},
		{"serve\n--max-body\n1MiB\n--rate\n5\n--max-wait\n1m", "FENCEGATE_LISTEN=:0"},
		{"serve", "FENCEGATE_MAX_BODY=1e400\nFENCEGATE_RATE=NaN\nFENCEGATE_ORIGIN=*"},
		{"exec\ncoupon:42\n--ttl\n30s\n--\ntrue", "FENCEGATE_URL=http://127.0.0.1:1"},
		{"exec\n--ttl\n-1s\na\n--\ntrue", ""},
		{"lock\nacquire\na", "FENCEGATE_URL=://"},
		{"records\nput\na\nb\n-", "FENCING_TOKEN=34.MFRGGZDFMZTWQ2LKNNWG23TPOB"},
		{"commit", ""},
		{"evict\na\n--number\n99999999999999999999", ""},
		{"keys\nadd\nx", ""},
		{"migrate\n--postgres-url\npostgres://\x00", ""},
		{"--output\njson\ndoctor", "FENCEGATE_POSTGRES_URL=postgres://a:secret@b/c"},
		{"prune\n--older-than\n1h", ""},
		{"watch\n--kind\nx", ""},
		{"", ""},
		{"--", "=\n=a\nFENCEGATE_"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, args, env string) {
		for line := range strings.Lines(env) {
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok || !strings.HasPrefix(name, "FENC") || strings.ContainsRune(name+value, 0) {
				continue
			}
			t.Setenv(name, value)
		}
		stopped := new(int)
		parser, err := kong.New(&cli{}, kong.Name("fencegate"), kong.Vars{"pause": "sleep"}, kong.Writers(io.Discard, io.Discard),
			kong.Exit(func(int) { panic(stopped) }))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if v := recover(); v != nil && v != stopped { // a help text ends the parsing
				panic(v)
			}
		}()
		_, err = parser.Parse(strings.Split(args, "\n"))
		if token := os.Getenv("FENCING_TOKEN"); err != nil && len(token) > 20 && strings.Contains(err.Error(), token) {
			t.Fatalf("the error shows the token: %v", err)
		}
	})
}

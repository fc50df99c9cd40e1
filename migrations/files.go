package migrations

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
)

//go:embed postgres/*.sql sqlite/*.sql query/*.sql
var files embed.FS

// Dialect is a kind of database; its value is the folder of its steps.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Migration is one step of the schema.
type Migration struct {
	Version  uint
	Name     string // the file's name without its ending: "0001_init"
	Applied  bool   // only as an answer of a [Migrator]
	Destroys string // what the step down destroys; empty if nothing
}

// All returns the steps of a dialect in order.
func All(d Dialect) []Migration {
	entries, err := fs.ReadDir(files, string(d))
	if err != nil {
		return nil
	}
	var all []Migration
	for _, e := range entries { // sorted by name, and so by version
		name, up := strings.CutSuffix(e.Name(), ".up.sql")
		if !up {
			continue
		}
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			panic(fmt.Sprintf("migrations: %s/%s has no version", d, e.Name())) // a test reads every name
		}
		all = append(all, Migration{Version: uint(n), Name: name, Destroys: destroys(read(d, name+".down.sql"))})
	}
	return all
}

// Latest returns the version that this program knows as the newest: the one that its
// stores want.
func Latest(d Dialect) uint {
	all := All(d)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Version
}

// SQL returns the text of one step: by name ("0001_init") or by version ("1"). The error
// is a [*fencing.InvalidError].
func SQL(d Dialect, name string) (up, down string, err error) {
	var names []string
	for _, m := range All(d) {
		if name == m.Name || strings.TrimLeft(name, "0") == strconv.FormatUint(uint64(m.Version), 10) {
			return read(d, m.Name+".up.sql"), read(d, m.Name+".down.sql"), nil
		}
		names = append(names, m.Name)
	}
	return "", "", &fencing.InvalidError{What: "migration", Got: strconv.Quote(name), Allowed: strings.Join(names, ", ")}
}

// destroys reads the first line of a step down.
func destroys(sql string) string {
	line, _, _ := strings.Cut(sql, "\n")
	what, ok := strings.CutPrefix(line, "-- destroys: ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(what)
}

func read(d Dialect, file string) string {
	text, err := fs.ReadFile(files, string(d)+"/"+file)
	if err != nil {
		return ""
	}
	return string(text)
}

func query(name string) string { return read("query", name+".sql") }

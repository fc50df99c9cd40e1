//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestServeUsage gives flags that do not fit: each is told, by its name, before anything is opened.
func TestServeUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--listen 0.0.0.0:0":               `--listen 0.0.0.0:0 is reached from elsewhere: add --keys FILE .*, or --insecure`,
		"--listen :0":                      `is reached from elsewhere`,
		"--listen [::]:0":                  `is reached from elsewhere`,
		"--listen example.org:0":           `is reached from elsewhere`,
		"--listen 127.0.0.1.example.org:0": `is reached from elsewhere`,
		"--listen 127.1:0":                 `is reached from elsewhere`,
		"--listen [::ffff:8.8.8.8]:0":      `is reached from elsewhere`,
		"--admin-listen 0.0.0.0:0":         `--admin-listen 0.0.0.0:0 is reached from elsewhere`,
		"--listen 8080":                    `--listen "8080": want HOST:PORT`,
		"--listen 127.0.0.1:":              `want HOST:PORT`,
		"--listen localhost:99999":         `--listen "localhost:99999": want HOST:PORT`,
		"--admin-listen localhost:x":       `--admin-listen "localhost:x": want HOST:PORT`,

		"--tls-cert x.pem":               `belong together`,
		"--max-body 1":                   `--max-body`,
		"--max-value=-1":                 `number of bytes`,
		"--max-value 1GiB":               `--max-value`,
		"--max-value 99999999999999TiB":  `number of bytes`,
		"--rate=-1":                      `--rate`,
		"--request-timeout 1ns":          `--request-timeout`,
		"--max-wait 2h":                  `--max-wait`,
		"--max-wait 29s":                 `invalid --max-wait 29s: want 30s to 1h`,
		"--max-wait 0s":                  `--max-wait`,
		"--request-timeout 0s":           `--request-timeout`,
		"--max-waiters 0":                `invalid --max-waiters 0: want more than 0`,
		"--max-in-flight 0":              `--max-in-flight`,
		"--max-waiting 0":                `--max-waiting `,
		"--max-waiting-per-key 0":        `--max-waiting-per-key`,
		"--max-waiting-per-key=-1":       `--max-waiting-per-key`,
		"--max-streams 0":                `--max-streams`,
		"--max-bodies 0":                 `--max-bodies`,
		"--max-body 0":                   `--max-body`,
		"--max-value 0":                  `--max-value`,
		"--max-reply 0":                  `--max-reply`,
		"--max-ops 0":                    `--max-ops`,
		"--events 0":                     `--events`,
		"--max-waiters=-1":               `--max-waiters`,
		"--max-ops 10001":                `--max-ops`,
		"--max-in-flight=-1":             `--max-in-flight`,
		"--events=-1":                    `events`,
		"--drain-delay=-1s":              `--drain-delay`,
		"--stop-timeout 2h":              `--stop-timeout`,
		"--read-timeout 0s":              `--read-timeout`,
		"--idle-timeout 1ms":             `--idle-timeout`,
		"--key-retention 0s":             `--key-retention`,
		"--max-connections 0":            `--max-connections`,
		"--origin *":                     `--origin`,
		"--lock etcd":                    `must be one of`,
		"--mode strange":                 `must be one of`,
		"--log-level loud":               `log-level`,
		"--listen 127.0.0.1:0 somewhere": `unexpected argument`,

		"--redis-url redis://a:1":                               `--redis-url is for --lock redis and --store redis, and would not be used`,
		"--store memory --postgres-url postgres://me:hush@a/x":  `--postgres-url is for --lock postgres and --store postgres`,
		"--store memory --sqlite-path x.db":                     `--sqlite-path is for --store sqlite`,
		"--redlock-urls redis://a:1":                            `--redlock-urls is for --lock redlock`,
		"--redlock-few-nodes":                                   `--redlock-few-nodes is for --lock redlock`,
		"--lock redis --redis-url redis://a:1 --store postgres": `--postgres-url is needed`, // before anybody is asked

		"--lock redis":    `--redis-url is needed`,
		"--lock postgres": `--postgres-url is needed`,
		"--redis-url redis://a:1 --redis-url redis://b:1":                                    `several --redis-url are the nodes of --lock redlock, but --lock is memory`,
		"--lock redis --store redis --redis-url redis://a:1,redis://b:1":                     `--store redis is one server.*--redlock-urls`,
		"--lock redlock --redlock-urls redis://c:1 --redis-url redis://a:1,redis://b:1":      `give one of the two`,
		"--lock redlock --redis-url redis://a:1":                                             `--redlock-urls is needed`,
		"--lock redis --redis-url redis://a:1,redis://b:1":                                   `fewer than|nodes`,
		"--lock redis --redis-url http://:hush@a:1":                                          `want redis://HOST:PORT/DB`,
		"--lock postgres --store memory --postgres-url postgres://me:hush@a:1:2/x?sslmode=y": `--postgres-url`,
	} {
		status, _, errs := serving(t, args)
		if status != exitUsage || !regexp.MustCompile(want).MatchString(errs) || strings.Contains(errs, "hush") {
			t.Errorf("serve %s: status %d, want 2: %s", args, status, errs)
		}
	}
	if _, err := os.Stat(sqliteDefault); err == nil {
		t.Error("a file was made")
	}
}

// serving carries out a serve that ends by itself, in this process: the whole command line takes
// longer to set up than all else here.
func serving(t *testing.T, args string) (status int, out, errs string) {
	t.Helper()
	var c serveCmd
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	if k, wrong := parser.Parse(strings.Fields(args)); wrong != nil {
		err = usageError{wrong}
	} else {
		err = c.Run(t.Context(), k, stdio{in: strings.NewReader(""), out: &o, err: &e})
	}
	if err == nil {
		t.Errorf("serve %s ended without an error", args)
		return exitOK, o.String(), e.String()
	}
	return exitStatus(err), o.String(), e.String() + err.Error()
}

// TestServeCannot names what is there and is wrong, and who does not answer, each with its status.
func TestServeCannot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("This is not what it should be.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	gone := freePort(t) // its UDP twin keeps it free
	file := filepath.Join(dir, "in-use.db")
	startReplica(t, "--sqlite-path", file)
	db := filepath.Join(dir, "x.db")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"--keys " + dir + "/none.json", exitFailed, `--keys: .*none.json`},
		{"--keys " + text, exitFailed, `--keys: `},
		{"--tls-cert " + text + " --tls-key " + text, exitFailed, `--tls-cert .*text`},
		{"--sqlite-path " + text + " --listen 127.0.0.1:0", exitFailed, `text is not a SQLite database`},
		{"--sqlite-path " + dir + "/no/where.db", exitFailed, `where.db`},
		{"--sqlite-path " + file, exitFailed, `in-use.db.*in use|in use`},
		{"--store memory --listen " + busy.Addr().String(), exitFailed, `--listen: .*address already in use`},
		{"--store memory --listen 127.0.0.1:0 --admin-listen " + busy.Addr().String(), exitFailed, `--admin-listen: .*address already in use`},
		{"--store postgres --postgres-url " + testenv.SharedPostgres(t).NewDatabase(t), exitFailed, `has no schema fencegate: .*fencegate migrate up`},
		{"--lock redis --redis-url redis://:hush@" + gone + "/0", exitUnavailable, `the Redis at 127.0.0.1:\d+ does not answer`},
		{"--store postgres --postgres-url postgres://me:hush@" + gone + "/none?sslmode=disable", exitUnavailable, `the Postgres at 127.0.0.1:`},
		{"--lock redis --redis-url redis://" + gone + ",redis://" + freePort(t) + ",redis://" + freePort(t), exitUnavailable, `--lock redlock: 0 of 3 nodes serve`},
	} {
		args := c.args
		if !strings.Contains(args, "--sqlite-path") && !strings.Contains(args, "--store") {
			args += " --sqlite-path " + db
		}
		status, out, errs := serving(t, args)
		if status != c.status || !regexp.MustCompile(c.want).MatchString(errs) || strings.Contains(errs, "hush") || out != "" {
			t.Errorf("serve %s: status %d, want %d: %s%s", c.args, status, c.status, out, errs)
		}
	}
}

// TestServeEnvironment finds a variable for every flag of serve.
func TestServeEnvironment(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&cli{}, kong.Vars{"pause": "signal"})
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	for _, node := range parser.Model.Children {
		if node.Name != "serve" {
			continue
		}
		for _, f := range node.Flags {
			flags++
			if f.Name != "output" && !slices.Contains(f.Envs, "FENCEGATE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))) {
				t.Errorf("--%s has the variables %v", f.Name, f.Envs)
			}
		}
	}
	if flags < 40 {
		t.Errorf("serve has %d flags", flags)
	}
	// A variable counts.
	cmd := command(t, "serve")
	cmd.Env = append(clean(), "FENCEGATE_LISTEN=0.0.0.0:0")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--insecure") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServeSharedEnvironment takes variables that others on the machine need for what they are not.
func TestServeSharedEnvironment(t *testing.T) {
	t.Parallel()
	cmd := command(t, "serve", "--store", "memory", "--listen", "127.0.0.1:0", "--max-body", "1") // which is found later
	cmd.Env = append(clean(), "FENCEGATE_REDIS_URL=redis://localhost:1", "FENCEGATE_POSTGRES_URL=postgres://localhost:1/x", "FENCEGATE_SQLITE_PATH=x.db")
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "--max-body") {
		t.Errorf("%s, want nothing but --max-body to be wrong", out)
	}
}

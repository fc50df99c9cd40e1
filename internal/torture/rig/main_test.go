package rig_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/client"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
)

// The client processes of the tests are this program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "client" {
		if err := aClient(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := testenv.Run(m)
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
	os.Exit(code)
}

// binary is the fencegate binary, built by the first test that asks.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func server(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "fencegate-rig-"); binary.err != nil { //nolint:usetesting // it is for all tests
			return
		}
		cmd := exec.Command("go", "build", "-o", binary.dir, "github.com/fencegate/fencegate/cmd/fencegate")
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "fencegate")
}

// aClient is the real client process if its config names a real workload, and else the fake.
func aClient(ctx context.Context, in io.Reader, out io.Writer) error {
	input := bufio.NewReader(in)
	var c client.Config
	text, err := input.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if len(c.Workloads) > 0 {
		if _, ok := workload.Named(c.Workloads[0]); ok {
			return client.Main(ctx, io.MultiReader(bytes.NewReader(text), input), out)
		}
	}
	return fake(ctx, c, input, out)
}

// fake is a client process that reaches everything it was told of once, keeps the connections, and
// writes ops until its input ends. Its workload says what is wrong with it:
//
//	late     says nothing for a while after its input has ended, for ever
//	crash    ends after its first op
//	garbage  writes a line that is none
//	mute     never says that it is ready
func fake(ctx context.Context, c client.Config, input io.Reader, out io.Writer) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, input)
	}()
	done, err := reach(ctx, c.Endpoints)
	if err != nil {
		return err
	}
	defer done()
	how := ""
	if len(c.Workloads) > 0 {
		how = c.Workloads[0]
	}
	say := func(l history.Line) {
		line, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		_, _ = out.Write(append(line, '\n'))
	}
	if how != "mute" {
		say(history.Line{Ready: true})
	}
	if how == "garbage" {
		fmt.Fprintln(out, "panic: not JSON")
	}
	for i := int64(1); ; i++ {
		op := history.Op{
			ID: fmt.Sprintf("%d-%d", c.Process, i), Process: c.Process, Group: c.Prefix + "a", Kind: history.Acquire, Call: history.Now(),
		}
		say(history.Line{Op: &op})
		op.Return, op.Outcome, op.Tokens = history.Now(), "applied", []history.Token{{Resource: op.Group, Number: i, Grant: strconv.Itoa(c.Process)}}
		if i == 1 { // longer than any buffer that somebody might read it with
			op.Error = strings.Repeat("long ", 40_000)
		}
		say(history.Line{Op: &op})
		if how == "crash" {
			return errors.New("the reason for its end")
		}
		select {
		case <-ended:
			if how == "late" {
				select {}
			}
			op.Kind, op.Return, op.Error = history.Release, 0, ""
			say(history.Line{Op: &op})
			done()
			say(history.Line{Done: true})
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// reach connects to all endpoints.
func reach(ctx context.Context, e client.Endpoints) (done func(), err error) {
	var closers []func()
	done = func() {
		for _, f := range closers {
			f()
		}
		closers = nil
	}
	for _, addr := range append(e.LockRedis, e.StoreRedis) {
		if addr == "" {
			continue
		}
		c := redis.NewClient(&redis.Options{Addr: addr})
		closers = append(closers, func() { _ = c.Close() })
		if err := c.Ping(ctx).Err(); err != nil {
			return done, err
		}
	}
	for _, url := range []string{e.LockPostgres, e.StorePostgres} {
		if url == "" {
			continue
		}
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return done, err
		}
		closers = append(closers, func() { _ = c.Close(ctx) })
		sql := "select from fencegate.meta"
		if url == e.StorePostgres {
			sql = "select from torture_rows, torture_audit"
		}
		if _, err := c.Exec(ctx, sql); err != nil {
			return done, err
		}
	}
	for _, url := range e.Gateways {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return done, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return done, err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return done, errors.New(resp.Status)
		}
	}
	return done, nil
}

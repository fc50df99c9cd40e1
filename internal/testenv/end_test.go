package testenv_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/internal/testenv"
)

const victimEnv = "FENCEGATE_TESTENV_VICTIM"

func TestNothingOutlivesTheTest(t *testing.T) {
	t.Parallel()
	var pids []int
	var dirs []string
	t.Run("inside", func(t *testing.T) {
		r := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
		r.SaveCopy()
		p := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
		p.NewDatabase(t)
		connect(t, p.URL())
		p.Pause()
		pids = append(backends(t, p.Pid()), r.Pid(), p.Pid())
		dirs = append(dirs, r.Dir(), p.Dir())
	})
	if len(pids) < 4 {
		t.Errorf("got %d processes, want Redis, PostgreSQL and its children", len(pids))
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d outlives its test", pid)
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s outlives its test", dir)
		}
	}
}

type remains struct {
	Pids []int
	Dirs []string
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"running", "paused"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.v")
			cmd.Env = append(os.Environ(), victimEnv+"="+state)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			left, log := readRemains(out)
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			if strings.Contains(log, "--- SKIP") {
				t.Skip(log)
			}
			if len(left.Pids) < 5 || len(left.Dirs) != 3 {
				t.Fatalf("the victim did not tell what it started: %+v\n%s", left, log)
			}
			testenv.Eventually(t, 20*time.Second, fmt.Sprintf("the end of all of %+v", left), func() bool {
				for _, pid := range left.Pids {
					if alive(pid) {
						return false
					}
				}
				for _, dir := range left.Dirs {
					if _, err := os.Stat(dir); err == nil {
						return false
					}
				}
				return true
			})
		})
	}
}

// TestVictim is no test of its own: it is run in another process, which is then killed.
func TestVictim(t *testing.T) { //nolint:paralleltest // alone in its process
	state := os.Getenv(victimEnv)
	if state == "" {
		return
	}
	shared := testenv.SharedRedis(t)
	r := testenv.StartRedis(t, nil)
	p := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	connect(t, p.URL())
	if state == "paused" {
		r.Pause()
		p.Pause()
	}
	left := remains{
		Pids: append(backends(t, p.Pid()), shared.Pid(), r.Pid(), p.Pid()),
		Dirs: []string{r.Dir(), p.Dir(), filepath.Dir(r.Dir())},
	}
	text, err := json.Marshal(left)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nremains: %s\n", text)
	time.Sleep(time.Minute) // until it is killed
}

func readRemains(out interface{ Read([]byte) (int, error) }) (left remains, log string) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "remains: "); ok {
			if err := json.Unmarshal([]byte(text), &left); err != nil {
				log += err.Error()
			}
			return left, log
		}
		log += lines.Text() + "\n"
	}
	return left, log
}

func TestGoroutinesAreAllThatRemains(t *testing.T) { //nolint:paralleltest // the goroutines of others would be counted
	testenv.SharedRedis(t)
	testenv.SharedPostgres(t).NewDatabase(t)
	testenv.StartRedis(t, nil).Restart()
	goleak.VerifyNone(t, testenv.Goroutines()...)
}

// backends are the children of a process.
func backends(t *testing.T, pid int) []int {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	var kids []int
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == strconv.Itoa(pid) {
			kid, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			kids = append(kids, kid)
		}
	}
	return kids
}

// alive says whether a process exists and is no zombie.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	out, _ := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	s := strings.TrimSpace(string(out))
	return s != "" && s[0] != 'Z'
}

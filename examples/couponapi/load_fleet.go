package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// asProgram in the environment makes a test binary be this program.
const asProgram = "COUPONAPI_AS_PROGRAM"

// fleet are API processes, which can be stopped and continued.
type fleet struct{ servers []*server }

type server struct {
	url string
	cmd *exec.Cmd
}

// startFleet starts the API processes, all over the same lock, store and payment service.
func startFleet(ctx context.Context, l *load, paymentURL string) (f *fleet, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f = &fleet{}
	defer func() {
		if err != nil {
			f.end()
		}
	}()
	for range l.servers {
		args := append([]string{
			"serve", "--listen", "127.0.0.1:0", "--payment-url", paymentURL,
			"--ttl", l.tune.ttl.String(), "--max-hold", l.tune.maxHold.String(),
		}, l.back.args()...)
		// Not CommandContext: whoever interrupts the load wants it to end in order.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		said := &tail{}
		cmd.Stderr = said // what it complains of while it is stopped is no news; why it ends is
		cmd.SysProcAttr = childAttr()
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return f, err
		}
		if err := cmd.Start(); err != nil {
			return f, err
		}
		f.servers = append(f.servers, &server{cmd: cmd})
		line, err := bufio.NewReader(stdout).ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) < 2 {
			_ = cmd.Wait() // else its last words may be missing
			f.servers = f.servers[:len(f.servers)-1]
			return f, fmt.Errorf("an API process did not start:\n%s", said)
		}
		f.servers[len(f.servers)-1].url = strings.TrimSuffix(words[1], "/")
		go func() { _, _ = io.Copy(io.Discard, stdout) }() // ends with the process
	}
	return f, nil
}

// tail keeps the last of what was written.
type tail struct{ data []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-4096):]
	return len(p), nil
}

// String returns what was kept; after the process has been waited for.
func (t *tail) String() string { return string(t.data) }

func (f *fleet) urls() []string {
	var urls []string
	for _, s := range f.servers {
		urls = append(urls, s.url)
	}
	return urls
}

// stopAtRandom stops one process after the other for one to two lease times, and returns how
// often, once all go on.
func (f *fleet) stopAtRandom(ctx context.Context, ttl time.Duration) (stops int) {
	for canStop && pause(ctx, ttl/4+rand.N(ttl/2)) {
		pid := f.servers[rand.IntN(len(f.servers))].cmd.Process.Pid
		if stopProcess(pid) != nil {
			break // it has ended, which the clients notice
		}
		stops++
		pause(ctx, ttl+ttl/4+rand.N(ttl))
		_ = continueProcess(pid)
	}
	return stops
}

// end ends all processes.
func (f *fleet) end() {
	for _, s := range f.servers {
		_ = continueProcess(s.cmd.Process.Pid)
		_ = endProcess(s.cmd.Process.Pid)
	}
	for _, s := range f.servers {
		kill := time.AfterFunc(workTime+5*time.Second, func() { _ = s.cmd.Process.Kill() })
		_ = s.cmd.Wait()
		kill.Stop()
	}
}

// privateRedis starts a redis-server that keeps nothing and ends with the load.
func privateRedis(ctx context.Context) (url string, stop func(), err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, errors.New("there is no redis-server here: install one, or give --redis-url, or --lock postgres --store postgres --postgres-url, or take --lock memory --store sqlite (one API process)")
	}
	for range 3 { // somebody else may take the port in between
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return "", nil, err
		}
		addr := l.Addr().String()
		_, port, _ := net.SplitHostPort(addr)
		_ = l.Close()
		cmd := exec.CommandContext(context.WithoutCancel(ctx), program,
			"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", os.TempDir())
		cmd.SysProcAttr = childAttr()
		if err = cmd.Start(); err != nil {
			return "", nil, err
		}
		stop = func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if err = awaitRedis(ctx, addr, cmd.Process.Pid); err == nil {
			return "redis://" + addr + "/0", stop, nil
		}
		stop()
	}
	return "", nil, fmt.Errorf("redis-server does not start: %w", err)
}

// awaitRedis waits until the server answers, and is the one that was started.
func awaitRedis(ctx context.Context, addr string, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer client.Close()
	for {
		info, err := client.Info(ctx, "server").Result()
		if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
			return fmt.Errorf("another server answers on %s", addr)
		}
		if err == nil || !pause(ctx, 20*time.Millisecond) {
			return err
		}
	}
}

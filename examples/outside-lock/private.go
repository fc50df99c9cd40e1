package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// startEtcd starts an etcd for this run alone, with its data in dir, and waits until it answers.
func startEtcd(ctx context.Context, program, dir string) (*etcd, func(), error) {
	client, err := freeURL(ctx)
	if err != nil {
		return nil, nil, err
	}
	peer, err := freeURL(ctx)
	if err != nil {
		return nil, nil, err
	}
	log, err := os.Create(dir + ".log")
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(program, "--data-dir", dir, //nolint:noctx // it ends by end
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--heartbeat-interval", "50", "--election-timeout", "500") // no lease of etcd is shorter than 1.5 of the latter
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Start()
	_ = log.Close() // the child has its own
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	end := func() {
		_ = cmd.Process.Kill() // nobody will want its data
		<-ended
	}
	e := &etcd{url: client, about: "a private etcd"}
	if err := e.ready(ctx, ended); err != nil {
		end()
		text, _ := os.ReadFile(dir + ".log")
		return nil, nil, fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	return e, end, nil
}

// ready waits until etcd answers, or has ended.
func (e *etcd) ready(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := e.call(ctx, "/v3/kv/range", map[string]any{"key": []byte("any")}, nil)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// freeURL returns an address on this machine that nobody listens on now.
func freeURL(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), l.Close()
}

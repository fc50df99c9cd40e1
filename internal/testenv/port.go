package testenv

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Below the ports that Linux (32768) and macOS (49152) use for outgoing connections and for ":0": one of those can be taken
// by anybody while a server is down.
const (
	firstPort = 12000
	lastPort  = 31999
)

// port is a TCP port on 127.0.0.1, reserved among all test processes by the UDP port of the same number: nobody needs that
// one, and the system frees it when the process ends, however it ends.
type port struct {
	number int
	claim  net.PacketConn
}

func reservePort() (*port, error) {
	for range 1000 {
		n := firstPort + rand.IntN(lastPort-firstPort+1)
		addr := "127.0.0.1:" + strconv.Itoa(n)
		claim, err := net.ListenPacket("udp4", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp4", addr)
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = l.Close()
		return &port{number: n, claim: claim}, nil
	}
	return nil, errors.New("found no free port on 127.0.0.1")
}

func (p *port) release() { _ = p.claim.Close() }

func (p *port) addr() string { return "127.0.0.1:" + strconv.Itoa(p.number) }

// FreeAddress returns an address on 127.0.0.1 that no other test gets while tb lasts, for a program that tb starts.
func FreeAddress(tb TB) string {
	tb.Helper()
	p, err := reservePort()
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(p.release)
	return p.addr()
}

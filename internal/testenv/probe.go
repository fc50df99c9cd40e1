package testenv

import (
	"crypto/rand"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Eventually waits until cond is true and fails the test if that takes longer than within; what names the awaited thing. cond
// is called at least once, and again and again in short intervals by the goroutine of the caller.
func Eventually(tb TB, within time.Duration, what string, cond func() bool) {
	tb.Helper()
	if !poll(within, cond) {
		tb.Fatalf("not within %v: %s", within, what)
	}
}

var (
	processID  = strings.ToLower(rand.Text()[:10])
	uniqueNext atomic.Int64
	nameRule   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,159}$`)
)

// Unique returns a resource name that begins with prefix and that no other call returns, in this process or in another. The
// prefix must be 1 to 160 characters of the grammar of resources; anything else fails the test.
func Unique(tb testing.TB, prefix string) string {
	tb.Helper()
	if !nameRule.MatchString(prefix) {
		tb.Fatalf("testenv: prefix %q is not 1 to 160 characters of a resource name", prefix)
	}
	return prefix + "-" + uniqueSuffix()
}

func uniqueSuffix() string { return processID + "-" + strconv.FormatInt(uniqueNext.Add(1), 10) }

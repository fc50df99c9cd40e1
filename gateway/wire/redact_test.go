package wire_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway/wire"
)

func TestRedactPasswords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://u:p@h:5432/d?sslmode=off failed": "postgres://[hidden]@h:5432/d?sslmode=off failed",
		"redis://:p@ss/w@rd@h/0, redis://h/1":        "redis://[hidden]@h/0, redis://h/1",
		"host=h password=p user=u":                   "host=h password=[hidden] user=u",
		"PASSWORD='a b' x":                           "PASSWORD=[hidden] x",
		"see https://example.org/a?b=c":              "see https://example.org/a?b=c",
		"a=b c@d":                                    "a=b c@d",
		"coupon:42 refused":                          "coupon:42 refused",
		"fg_abcdefgh23_" + strings.Repeat("A", 26):   "fg_abcdefgh23_[hidden]",
	} {
		if got := wire.Redact(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

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
		"password = hunter2 x":                       "password = [hidden] x",
		`password='hun\'ter2' x`:                     "password=[hidden] x",
		`password='hun''ter2' x`:                     "password=[hidden] x",
		`password="hun ter2" x`:                      "password=[hidden] x",
		`password=hun\ ter2 x`:                       "password=[hidden] x",
		`password='hun ter2`:                         "password=[hidden]",
		`"dial host=h password=hunter2": refused`:    `"dial host=h password=[hidden]": refused`,
		"postgres://h/d?sslpassword=hunter2":         "postgres://h/d?sslpassword=[hidden]",
		`{"password": "hun\"ter2", "a":1}`:           `{"password": [hidden], "a":1}`,
		"password: authentication failed":            "password: authentication failed",
		"postgres://u:hun<ter2@h/d":                  "postgres://[hidden]@h/d",
		`postgres://u:hun"ter2@h/d`:                  "postgres://[hidden]@h/d",
		`parse "redis://:hun ter2@h": x`:             `parse "redis://[hidden]@h": x`,
		`parse "redis://:hu@n ter2@h": x`:            `parse "redis://[hidden]@h": x`,
		"postgres://u:12 ter2@h":                     "postgres://u:12 ter2@h", // a port, as far as anybody can tell
		"http://h:8080/a of bob@x":                   "http://h:8080/a of bob@x",
		"http://h:8080 of bob@x":                     "http://h:8080 of bob@x",
		"http://h/a of bob@x":                        "http://h/a of bob@x",
		"postgres://u:p@h refused\nask bob@x":        "postgres://[hidden]@h refused\nask bob@x",
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

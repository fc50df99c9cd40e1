package redisx

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// inside are parts of replies that tell of a command that a script may not run: one that
// the user is not allowed (as Redis 6 to 7.0 and as later ones say it), or that the server
// does not have. The commands before it in the script were run, writes among them, and
// some servers give such a reply a code of notRun, or of notRunErr.
var inside = []string{
	"user executing the script", "ACL failure in script",
	"Unknown Redis command called from", "not allowed from script",
}

// notRun are the codes of replies with which Redis says that it did not run a command, or
// that a script's first write was refused.
var notRun = map[string]bool{
	"LOADING": true, "BUSY": true, "NOSCRIPT": true, "MASTERDOWN": true,
	"READONLY": true, "OOM": true, "MISCONF": true, "NOREPLICAS": true,
	"CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true, "ASK": true, "CROSSSLOT": true,
	"NOAUTH": true, "WRONGPASS": true, "NOPERM": true, "WRONGTYPE": true,
}

// notRunErr are the beginnings of such replies under the common code ERR. The first two
// are errors inside a script (Redis 6 and 7), which come before its first write. Any other
// ERR is not taken for one: a proxy between client and server answers so when it lost the
// server's reply.
var notRunErr = []string{
	"ERR Error running script", "ERR user_script", "ERR Error compiling script",
	"ERR max number of clients reached", "ERR unknown command",
	"ERR invalid password", "ERR AUTH",
}

// nothingHappened reports whether a script surely did not write and will not. A context's
// end does not say so: the client returns it for calls that were sent, too.
func nothingHappened(err error) bool {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		text := reply.Error()
		for _, part := range inside {
			if strings.Contains(text, part) {
				return false
			}
		}
		code, _, _ := strings.Cut(text, " ")
		if code == "NOPERM" && strings.Contains(text, "script:") {
			return false // in whatever words: "... script: <its name>, on @user_script:<line>"
		}
		for _, begin := range notRunErr {
			if strings.HasPrefix(text, begin) {
				return true
			}
		}
		return notRun[code]
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// scrub cuts what a server repeats of the command that it does not know: the arguments of
// a script have grant ids among them.
func scrub(err error) error {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		if text, _, cut := strings.Cut(reply.Error(), ", with args"); cut {
			return errors.New(text)
		}
	}
	return err
}

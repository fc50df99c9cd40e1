package redisx

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

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
		code, _, _ := strings.Cut(text, " ")
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

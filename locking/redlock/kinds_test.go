package redlock_test

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed *.lua
var luaFiles embed.FS

// kinds names the scripts, by what the client sends of them: the digest or the source.
var kinds = func() map[string]string {
	text := func(name string) string {
		b, err := luaFiles.ReadFile(name + ".lua")
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	m := map[string]string{}
	for kind, parts := range map[string][]string{
		"grant": {"common", "grant"}, "confirm": {"common", "confirm"}, "renew": {"common", "renew"},
		"abort": {"common", "wake", "abort"}, "release": {"common", "wake", "release"}, "status": {"common", "status"},
	} {
		var src []string
		for _, part := range parts {
			src = append(src, text(part))
		}
		all := strings.Join(src, "\n")
		sum := sha1.Sum([]byte(all))
		m[hex.EncodeToString(sum[:])], m[all] = kind, kind
	}
	return m
}()

// kindOf names a command: the script that it runs, else the command in lower case.
func kindOf(args []string) string {
	name := strings.ToLower(args[0])
	if (name == "evalsha" || name == "eval") && len(args) > 1 {
		if kind := kinds[args[1]]; kind != "" {
			return kind
		}
	}
	return name
}

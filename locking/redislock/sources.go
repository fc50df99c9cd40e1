package redislock

import (
	"embed"
	"io/fs"
)

//go:embed *.lua
var sources embed.FS

// Sources returns the scripts that this package runs, as files, for people to read. The first line
// of each says what it returns and what its parameters are.
func Sources() fs.FS { return sources }

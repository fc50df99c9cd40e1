package memlock

import (
	"embed"
	"io/fs"
)

//go:embed memlock.go
var sources embed.FS

// Sources returns the file in which this package decides, for people to read.
func Sources() fs.FS { return sources }

package fault

import _ "embed" // the source

//go:embed shim/clock.c
var clockSource []byte

func clockLibrary() (string, error) { return library("clock", clockSource) }

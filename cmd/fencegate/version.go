package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct {
	outputFlag
}

// Run implements the command.
func (c *versionCmd) Run(std stdio) error {
	v := struct {
		Version  string `json:"version"`
		Revision string `json:"revision,omitempty"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	if c.Output == "json" {
		return writeJSON(std.out, v)
	}
	_, err := fmt.Fprintf(std.out, "fencegate %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	return err
}

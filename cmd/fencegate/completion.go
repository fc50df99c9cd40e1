package main

import (
	"path/filepath"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"For which shell: ${enum}."`
}

// Help implements kong.HelpProvider.
func (completionCmd) Help() string {
	return "What is printed goes into the shell's startup file:\n\n" +
		"  source <(fencegate completion bash)   # or zsh\n  fencegate completion fish | source\n\n" +
		"The shell then asks this program, by its path of now, what may come next: commands, flags and their values."
}

// completing reports whether a shell may be asking, which sets COMP_LINE: bash with the program's
// name as the first argument, others with none. Without this, a variable that somebody has left
// behind would keep every command from being run.
func completing(args []string) bool {
	return len(args) == 0 || filepath.Base(args[0]) == "fencegate"
}

// Run implements the command.
func (c *completionCmd) Run(k *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}

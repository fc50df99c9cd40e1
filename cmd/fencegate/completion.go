package main

import (
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

// Run implements the command.
func (c *completionCmd) Run(k *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}

package main

import "io"

// The exit statuses: those of sysexits.h and of shells where they have one.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitInterrupted = 130
)

// stdio is what a command reads and writes: data to out, messages to err.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// usageError exits with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// unavailableError exits with 69: a server does not answer.
type unavailableError struct{ error }

func (e unavailableError) Unwrap() error { return e.error }

// interrupted exits with 130.
type interrupted struct{ error }

func (e interrupted) Unwrap() error { return e.error }

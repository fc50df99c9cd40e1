package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fencegate/fencegate/fencing"
)

// The variables in which exec hands a token to its command, and in which others find it.
const (
	envToken    = "FENCING_TOKEN"
	envResource = "FENCING_RESOURCE"
	envNumber   = "FENCING_NUMBER"
)

// tokenFlags say where a token is. It is never an argument: every user of a machine sees those
// of its processes.
type tokenFlags struct {
	TokenFile string `placeholder:"FILE" env:"FENCEGATE_TOKEN_FILE" help:"Where the token is, - for standard input. Default: the variable FENCING_TOKEN."`
}

// handHelp is what the help of every command says that has tokenFlags.
const handHelp = " The token is read from the variable FENCING_TOKEN or from --token-file, never from the command line, which others can see."

var errNoToken = errors.New("a token is needed: in FENCING_TOKEN, or in --token-file")

// token reads the token for a resource; ok is false if there is none.
func (f tokenFlags) token(resource string, stdin io.Reader) (t fencing.Token, ok bool, err error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return t, false, usageError{err}
	}
	text := os.Getenv(envToken)
	if f.TokenFile != "" {
		if text, err = readSecret(f.TokenFile, stdin); err != nil {
			return t, false, usageError{fmt.Errorf("--token-file: %w", err)}
		}
	} else if of := os.Getenv(envResource); text != "" && of != "" && of != resource {
		return t, false, nil // it is another resource's
	}
	if text == "" {
		return t, false, nil
	}
	t, err = fencing.ParseToken(resource, text)
	if err != nil {
		return t, false, usageError{err}
	}
	return t, true, nil
}

// must is token where there has to be one.
func (f tokenFlags) must(resource string, stdin io.Reader) (fencing.Token, error) {
	t, ok, err := f.token(resource, stdin)
	if err == nil && !ok {
		err = usageError{noToken(resource)}
	}
	return t, err
}

// noToken says why there is no token for a resource.
func noToken(resource string) error {
	if of := os.Getenv(envResource); os.Getenv(envToken) != "" && of != "" && of != resource {
		return fmt.Errorf("%w: the one in FENCING_TOKEN is of %s", errNoToken, of)
	}
	return errNoToken
}

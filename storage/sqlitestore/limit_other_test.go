//go:build !linux && !darwin

package sqlitestore_test

import "errors"

func writeToTheLimit(string) error { return errors.New("there are no such limits here") }

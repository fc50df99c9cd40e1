//go:build !linux && !darwin

package testenv

import (
	"runtime"
	"syscall"
)

// The functions below are never reached: supported is asked first.

func supported() error {
	return &missingError{"private servers need Linux or macOS, this is " + runtime.GOOS}
}

func needsServerUser() bool                     { return false }
func chownToServerUser(string) error            { return supported() }
func serverAttr() (*syscall.SysProcAttr, error) { return nil, supported() }
func watcherAttr() *syscall.SysProcAttr         { return nil }
func stopTree(*process) ([]int, error)          { return nil, supported() }
func contTree(*process) error                   { return supported() }
func killTree(*process) error                   { return supported() }
func removePostgresLeftovers(string) error      { return supported() }

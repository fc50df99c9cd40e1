//go:build !unix

package main

import "syscall"

// unprivileged returns as whom a server is to run: as whoever we are.
func unprivileged(string) (*syscall.SysProcAttr, error) { return nil, nil } //nolint:nilnil // see above

//go:build !unix

package main

import "syscall"

func childAttr() *syscall.SysProcAttr { return nil }

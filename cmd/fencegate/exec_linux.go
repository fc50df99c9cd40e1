package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// lostOnTerminal is what exec's help says of a command on a terminal.
const lostOnTerminal = "its descendants of that moment are ended with it, but not one whose parent has ended before. "

// dieWithParent lets the kernel kill the command when the thread that starts it ends, which
// takes no grace: nobody would be left to see to it.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// descendants are the processes that pid has started, and theirs, as of now. One whose parent has
// ended is not among them. Each is held by a handle: its number may be used again.
func descendants(pid int) (list []*os.Process) {
	children := map[int][]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		name := bytes.LastIndexByte(stat, ')') // which may be anything, and stands before the state
		var parent int
		if err != nil || name < 0 {
			continue
		}
		if _, err := fmt.Sscanf(string(stat[name+1:]), " %1s %d", new(string), &parent); err == nil {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			children[parent] = append(children[parent], child)
		}
	}
	for todo := children[pid]; len(todo) > 0; todo = todo[1:] {
		if p, err := os.FindProcess(todo[0]); err == nil {
			list = append(list, p)
		}
		todo = append(todo, children[todo[0]]...)
	}
	return list
}

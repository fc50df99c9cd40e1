package testenv

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// state reads the state of every thread: a stop is complete only when the last of them stands.
func state(pid int) procState {
	stats, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	result := gone
	for _, file := range stats {
		s, _, ok := readStat(file)
		switch {
		case !ok || s == 'Z' || s == 'X':
		case s == 'T' || s == 't':
			result = stopped
		default:
			return running
		}
	}
	return result
}

func children(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var kids []int
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, parent, ok := readStat("/proc/" + e.Name() + "/stat"); ok && parent == pid && s != 'Z' && s != 'X' {
			kids = append(kids, id)
		}
	}
	return kids, nil
}

// readStat reads "pid (name) state parent ..."; the name may itself hold spaces and brackets.
func readStat(file string) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

package story

import "syscall"

// sysProcAttr lets the child die with this process even if that is killed: a stopped
// child would not see its input end.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

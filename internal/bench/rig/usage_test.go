package rig_test

import (
	"os"
	"testing"

	"github.com/fencegate/fencegate/internal/bench/rig"
)

// What this process does is seen from outside: it works until it is, and takes memory.
func TestUsageOfAProcess(t *testing.T) {
	t.Parallel()
	start, err := rig.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := start; now == start; {
		if now, err = rig.CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	before, err := rig.Resident(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	taken := make([]byte, size)
	for i := range taken {
		taken[i] = 1
	}
	after, err := rig.Resident(os.Getpid())
	if err != nil || after-before < size/2 {
		t.Errorf("%d MiB before %d more and %d after, %v", before>>20, size>>20, after>>20, err)
	}
	if _, err := rig.CPU(0); err == nil {
		t.Error("a process that is not there has used a processor")
	}
	if taken[size-1] != 1 {
		t.Error("the memory was given back too early")
	}
}

package main

import (
	"os"
	"strconv"
	"strings"
)

// resident is how much of this process lies in the machine's memory, text included, now and at most so far. Both are 0 where
// the kernel does not tell in the way of Linux.
func resident() (now, peak uint64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		field := strings.Fields(line)
		if len(field) != 3 || field[2] != "kB" {
			continue
		}
		kib, _ := strconv.ParseUint(field[1], 10, 64)
		switch field[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	return now, peak
}

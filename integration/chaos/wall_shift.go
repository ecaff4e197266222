//go:build wallshift && linux && amd64

package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// A Go program reads its clocks by a function of the vDSO, a page that the kernel maps into every process, and calls neither libc
// nor the kernel: libfaketime, which replaces functions of libc, moves nothing here, and a time namespace moves the monotonic
// clock but not the wall clock. The runtime keeps the address of that function in a variable. This file replaces it by the address of one of ours
// (wall_shift_amd64.s), which calls it and moves the wall clock's seconds. So everything in the process sees the wrong time: the
// library, the AWS SDK, the logger. It needs the linker flag -checklinkname=0, without which no package may touch the runtime's variables.

//go:linkname vdsoClockgettimeSym runtime.vdsoClockgettimeSym
var vdsoClockgettimeSym uintptr

// Read by the assembly.
var (
	vdsoClock   uintptr // the kernel's function
	wallSeconds int64   // atomic
)

// shiftedClockAddress is the address of the function that replaces it.
func shiftedClockAddress() uintptr

var install = sync.OnceValue(func() error {
	if vdsoClockgettimeSym == 0 {
		return errors.New("shift the wall clock: the kernel offers no vDSO")
	}
	vdsoClock = vdsoClockgettimeSym
	atomic.StoreUintptr(&vdsoClockgettimeSym, shiftedClockAddress())
	return nil
})

// canShift tells that this program was built so that shiftWall works.
const canShift = true

// shiftWall sets this process's wall clock ahead of the true time, or back if d is negative, by whole seconds. The monotonic
// clock and timers stay as they are.
func shiftWall(d time.Duration) error {
	if err := install(); err != nil {
		return err
	}
	atomic.StoreInt64(&wallSeconds, int64(d/time.Second))
	return nil
}

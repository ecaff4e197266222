//go:build wallshift && linux && amd64

#include "textflag.h"

// shiftedClock has the C signature int clock_gettime(clockid_t DI, struct timespec *SI) and is called by the runtime on a system stack.
TEXT ·shiftedClock(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ DI
	PUSHQ SI
	SUBQ  $8, SP // the stack is aligned to 16 at a call
	MOVQ  ·vdsoClock(SB), AX
	CALL  AX
	ADDQ  $8, SP
	POPQ  SI
	POPQ  DI
	TESTL DI, DI // CLOCK_REALTIME is 0
	JNE   done
	MOVQ  ·wallSeconds(SB), CX
	ADDQ  CX, (SI) // tv_sec
done:
	RET

// func shiftedClockAddress() uintptr
TEXT ·shiftedClockAddress(SB), NOSPLIT, $0-8
	MOVQ $·shiftedClock(SB), AX
	MOVQ AX, ret+0(FP)
	RET

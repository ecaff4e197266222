//go:build unix && !(wallshift && linux && amd64)

package main

import (
	"errors"
	"time"
)

// canShift tells that this program was not built so that shiftWall works.
const canShift = false

func shiftWall(time.Duration) error {
	return errors.New("shift the wall clock: this needs linux on amd64, and the program built by integration/chaos.sh: with -tags wallshift and -ldflags=-checklinkname=0")
}

package leases

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

// nonces makes the nonces of one process: process/sequence, where process is host/pid/16 hex digits. The random part tells
// two processes with the same worker id apart, also two starts of one container that see the same host and pid; host and
// pid let a person find the other one (see DuplicateWorkerError).
type nonces struct {
	process string
	last    atomic.Uint64
}

// newNonces starts a sequence. host names the machine and, if that helps, the process; empty means this machine's host name
// and this process's pid.
func newNonces(host string) *nonces {
	if host == "" {
		name, err := os.Hostname()
		if err != nil || name == "" {
			name = "unknown"
		}
		host = fmt.Sprintf("%s/%d", name, os.Getpid())
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return &nonces{process: host + "/" + hex.EncodeToString(random[:])}
}

// next is a nonce that no tenure had before.
func (n *nonces) next() string { return n.process + "/" + strconv.FormatUint(n.last.Add(1), 36) }

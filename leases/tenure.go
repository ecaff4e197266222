package leases

import (
	"fmt"
	"strings"
)

// Process is the part of the nonce that all tenures of one process share: everything before the last slash.
func (t Tenure) Process() string {
	if i := strings.LastIndexByte(t.Nonce, '/'); i >= 0 {
		return t.Nonce[:i]
	}
	return t.Nonce
}

// describeProcess names host and process of a nonce, which is "host/pid/random/sequence".
func describeProcess(nonce string) string {
	parts := strings.Split(nonce, "/")
	n := len(parts)
	if n < 4 {
		return fmt.Sprintf("%q", nonce)
	}
	return fmt.Sprintf("%s (process %s)", strings.Join(parts[:n-3], "/"), parts[n-3])
}

// ours reports whether the last write that moved the counter was made by this tenure, and its worker still owns: then the
// row is this tenure's, whatever the counter is. Owner and counter alone do not say so: a Java worker with our id, or another
// process of ours, leaves a row that differs from our own lost reply in nothing else.
func (t Tenure) ours(row Lease) bool {
	return row.TenureSpeaks() && row.Tenure.Nonce == t.Nonce && row.ActualOwner() == t.Worker
}

// released reports whether the row is as this tenure's release leaves it.
func (t Tenure) released(row Lease) bool {
	return row.TenureSpeaks() && row.Tenure.Nonce == t.Nonce && row.Owner == ""
}

// handedOver reports whether the row is as this tenure's completion of a hand-off leaves it.
func (t Tenure) handedOver(row Lease) bool { return row.InTransit() && row.Tenure.Nonce == t.Nonce }

// duplicate returns the error for a row that another process with our worker id has written since, or nil.
func (t Tenure) duplicate(row Lease) error {
	if !row.TenureSpeaks() || row.Tenure.Worker != t.Worker || row.Tenure.Process() == t.Process() {
		return nil
	}
	return &DuplicateWorkerError{
		Worker: t.Worker, Key: row.Key, OurNonce: t.Nonce, TheirNonce: row.Tenure.Nonce,
		OurProcess: describeProcess(t.Nonce), TheirProcess: describeProcess(row.Tenure.Nonce),
	}
}

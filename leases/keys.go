package leases

import (
	"fmt"
	"strings"

	"github.com/shardlease/shardlease/config"
)

// Keys says which keys the leases of a table have. A worker of one stream and one of several write different ones, and a
// table holds only one form: to each of the two, the rows of the other are of no stream that it knows.
type Keys int

// The forms of keys.
const (
	AnyKeys    Keys = iota // not looked at
	ShardKeys              // shard ids: the table of one stream
	StreamKeys             // stream identifier:shard id: the table of several streams
)

// splitKey cuts a key of the form account:name:epoch:shardId; ok is false for another one.
func splitKey(key string) (stream, shard string, ok bool) {
	i := strings.LastIndexByte(key, ':')
	if i < 0 {
		return "", "", false
	}
	if _, err := config.ParseStreamIdentifier(key[:i]); err != nil {
		return "", "", false
	}
	return key[:i], key[i+1:], true
}

// Stream is the identifier of the lease's stream, account:name:epoch; empty in the table of one stream.
func (l Lease) Stream() string {
	if l.StreamName != "" {
		return l.StreamName
	}
	stream, _, _ := splitKey(l.Key)
	return stream
}

// has reports whether a lease has a key of this form. In the table of several streams the attributes must agree with it.
func (k Keys) has(l Lease) bool {
	switch k {
	case ShardKeys:
		return l.Stream() == ""
	case StreamKeys:
		stream, shard, ok := splitKey(l.Key)
		return ok && (l.StreamName == "" || l.StreamName == stream) && (l.ShardID == "" || l.ShardID == shard)
	case AnyKeys:
	}
	return true
}

// MixedKeysError says that a lease table holds leases whose keys have the form of the other kind of worker: one stream or
// several.
type MixedKeysError struct {
	Table string
	Key   string // of one such row
	Rows  int    // how many of them were seen
	Want  Keys   // the form that this worker writes
}

const (
	shardKeyForm  = "a shard id (shardId-000000000000), of a worker of one stream"
	streamKeyForm = "account:name:epoch:shardId (123456789012:orders:1680616058:shardId-000000000000), of a worker of several streams"
)

func (e *MixedKeysError) Error() string {
	have, want := streamKeyForm, shardKeyForm
	if e.Want == StreamKeys {
		have, want = shardKeyForm, streamKeyForm
	}
	if _, _, is := splitKey(e.Key); is == (e.Want == StreamKeys) {
		have = "one that its attributes streamName and shardId contradict"
	}
	return fmt.Sprintf("lease table %s holds %d leases with keys of the other form, %q the first of them: their keys are %s, and this worker's are %s; "+
		"the two never share a table: choose another ApplicationName or LeaseManagement.TableName, or stop the other workers and delete those rows, which forgets how far they were read",
		e.Table, e.Rows, e.Key, have, want)
}

// LeaveOtherKeysOut lets listings leave out rows with keys of the other form than TableOptions.Keys says, with one warning
// through Hooks.LeaseSkipped. Before, such a row fails the listing with a *[MixedKeysError]: a worker that starts must not
// work beside workers of the other kind, but one that works must not be stopped by a row that somebody writes.
func (t *Table) LeaveOtherKeysOut() { t.tolerant.Store(true) }

// otherKeys is told of the rows with other keys that a listing met.
func (t *Table) otherKeys(rows int, example string) error {
	if rows == 0 {
		return nil
	}
	err := &MixedKeysError{Table: t.cfg.TableName, Key: example, Rows: rows, Want: t.keys}
	if !t.tolerant.Load() {
		return err
	}
	if t.mixed.CompareAndSwap(false, true) {
		t.warn(example, err)
	}
	return nil
}

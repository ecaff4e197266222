package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// StreamConfig is one of several streams that a worker reads. (KCL: StreamConfig)
type StreamConfig struct {
	// StreamName is the stream. Required unless StreamARN says it; 1 to 128 characters of a-z, A-Z, 0-9, '_', '.', '-'.
	StreamName string

	// StreamARN names the stream in full, as arn:aws:kinesis:REGION:ACCOUNT:stream/NAME; needed if it belongs to another
	// account or region. The name in it must be StreamName, or StreamName must be empty. Default: the stream is looked up by
	// name in the account of the credentials.
	StreamARN string

	// AccountID owns the stream: 12 digits, those of StreamARN if that is set. Default: the service is asked.
	AccountID string

	// CreationEpoch tells a stream from an earlier one of its name that was deleted: the Unix seconds of its creation, or any
	// number above 0 that all workers agree on. It is a part of the keys of its leases, so that another epoch is another
	// stream, read from InitialPosition; a fleet with Java workers must set theirs. Two streams of one name and account in
	// different regions need one each, as a key has no region. Default: the service is asked, by
	// DescribeStreamSummary, and a stream that is deleted and created anew is read anew.
	CreationEpoch int64

	// InitialPosition is where reading starts in a shard of this stream that has no checkpoint. Default: TrimHorizon().
	InitialPosition InitialPosition
}

// Complete returns c with a name and an account if its ARN tells them.
func (c StreamConfig) Complete() StreamConfig {
	if arn, err := parseARN(c.StreamARN); err == nil {
		c.StreamName, c.AccountID = arn.name, arn.account
	}
	return c
}

// Identifier is what c tells of the stream's identifier: whole if AccountID and CreationEpoch are known, else with what is
// known.
func (c StreamConfig) Identifier() (id StreamIdentifier, whole bool) {
	c = c.Complete()
	id = StreamIdentifier{AccountID: c.AccountID, StreamName: c.StreamName, CreationEpoch: c.CreationEpoch}
	return id, id.AccountID != "" && id.CreationEpoch != 0
}

// IsOf reports whether c may be the configuration of the stream id: what c says of its identifier is so.
func (c StreamConfig) IsOf(id StreamIdentifier) bool {
	own, _ := c.Identifier()
	return own.StreamName == id.StreamName && (own.AccountID == "" || own.AccountID == id.AccountID) &&
		(own.CreationEpoch == 0 || own.CreationEpoch == id.CreationEpoch)
}

// MayBe reports whether two configurations are, or may be, of one stream: what both say of it agrees.
func (c StreamConfig) MayBe(other StreamConfig) bool {
	x, _ := c.Identifier()
	y, _ := other.Identifier()
	return x.StreamName == y.StreamName && (x.AccountID == y.AccountID || x.AccountID == "" || y.AccountID == "") &&
		(x.CreationEpoch == y.CreationEpoch || x.CreationEpoch == 0 || y.CreationEpoch == 0)
}

// ToTellApart says how to tell two streams apart that may be one (MayBe) though their ARNs show that they are not: the text is empty if they do not.
func (c StreamConfig) ToTellApart(other StreamConfig) string {
	if c.StreamARN == "" || other.StreamARN == "" || c.StreamARN == other.StreamARN {
		return ""
	}
	return "the key of a lease has the account, the name and the CreationEpoch of a stream and no region, so that a CreationEpoch of its own for each of the two tells them apart"
}

// Validate returns nil, or every fault at once, as [Config.Validate] does.
func (c StreamConfig) Validate() error {
	var f faults
	c.check(&f, "")
	return f.join()
}

func (c StreamConfig) check(f *faults, path string) {
	checkStream(f, path, c.StreamName, c.StreamARN)
	arn, _ := parseARN(c.StreamARN)
	switch {
	case c.AccountID == "":
	case !isAccount(c.AccountID):
		f.add(path+"AccountID", strconv.Quote(c.AccountID), "12 digits")
	case arn.account != "" && arn.account != c.AccountID:
		f.add(path+"AccountID", strconv.Quote(c.AccountID), fmt.Sprintf("%q as in StreamARN, or none", arn.account))
	}
	if c.CreationEpoch < 0 {
		f.add(path+"CreationEpoch", strconv.FormatInt(c.CreationEpoch, 10), "Unix seconds from 1 on, or 0 to ask the service")
	}
	checkPosition(f, path+"InitialPosition", c.InitialPosition)
}

// StreamIdentifier tells the streams of one lease table apart. Its text is the beginning of the keys of the stream's
// leases. (KCL: StreamIdentifier)
type StreamIdentifier struct {
	AccountID     string
	StreamName    string
	CreationEpoch int64 // above 0
}

// String is account:name:epoch, as in 123456789012:orders:1680616058. (KCL: StreamIdentifier.serialize)
func (s StreamIdentifier) String() string {
	return s.AccountID + ":" + s.StreamName + ":" + strconv.FormatInt(s.CreationEpoch, 10)
}

// ParseStreamIdentifier reads account:name:epoch: digits, a name without a colon, and a number above 0.
// (KCL: StreamIdentifier.multiStreamInstance)
func ParseStreamIdentifier(s string) (StreamIdentifier, error) {
	parts := strings.Split(s, ":")
	if len(parts) == 3 && isDigits(parts[0]) && parts[1] != "" && isDigits(parts[2]) {
		if epoch, err := strconv.ParseInt(parts[2], 10, 64); err == nil && epoch > 0 {
			return StreamIdentifier{AccountID: parts[0], StreamName: parts[1], CreationEpoch: epoch}, nil
		}
	}
	return StreamIdentifier{}, fmt.Errorf("stream identifier is %q, want account:name:epoch with an epoch above 0, as in 123456789012:orders:1680616058", s)
}

// FormerStreamsConfig is about the leases of streams that are not read any more: a worker of several streams finds them in
// the table, and neither Config.Streams nor the tracker names them. As long as such leases exist they are read on, since
// another worker of the fleet may be newer than this one and name their stream.
// (KCL: FormerStreamsLeasesDeletionStrategy)
type FormerStreamsConfig struct {
	// Deletion says which of those leases the leader deletes, and their places with them. Default KeepLeases.
	Deletion FormerStreamsDeletion

	// Wait is for how long a stream must have been missing, as each worker has seen it by itself, before its leases are
	// deleted; a stream that comes back before that is read on as if nothing had been. Make it longer than a deployment
	// takes. Leases of a stream that the service has deleted do not wait. Default 1h; 1s to 720h.
	// (KCL: waitPeriodToDeleteFormerStreams)
	Wait time.Duration

	// Listed are the identifiers (account:name:epoch) of the streams that DeleteListed is about; a StreamTracker may name
	// more. Default: none. (KCL: streamIdentifiersForLeaseCleanup)
	Listed []string
}

// FormerStreamsDeletion is what becomes of the leases of streams that are not read any more. (KCL: StreamsLeasesDeletionType)
type FormerStreamsDeletion string

// The ways to treat leases of former streams.
const (
	// KeepLeases leaves them. (KCL: NO_STREAMS_LEASES_DELETION)
	KeepLeases FormerStreamsDeletion = "KeepLeases"
	// DeleteAfterWait deletes them all, each stream's after Wait. (KCL: FORMER_STREAMS_AUTO_DETECTION_DEFERRED_DELETION)
	DeleteAfterWait FormerStreamsDeletion = "DeleteAfterWait"
	// DeleteListed deletes those of the listed streams, after Wait. (KCL: PROVIDED_STREAMS_DEFERRED_DELETION)
	DeleteListed FormerStreamsDeletion = "DeleteListed"
)

func (c FormerStreamsConfig) check(f *faults) {
	const p = "FormerStreams."
	switch c.Deletion {
	case "", KeepLeases, DeleteAfterWait, DeleteListed:
	default:
		f.add(p+"Deletion", strconv.Quote(string(c.Deletion)), fmt.Sprintf("%s, %s or %s", KeepLeases, DeleteAfterWait, DeleteListed))
	}
	whenSet(f, p+"Wait", c.Wait, time.Second, 30*day)
	if len(c.Listed) > 0 && c.Deletion != DeleteListed {
		f.add(p+"Listed", fmt.Sprintf("%d streams", len(c.Listed)), fmt.Sprintf("none unless Deletion is %s", DeleteListed))
	}
	for i, s := range c.Listed {
		if _, err := ParseStreamIdentifier(s); err != nil {
			f.add(fmt.Sprintf("%sListed[%d]", p, i), strconv.Quote(s), "account:name:epoch with an epoch above 0")
		}
	}
}

// checkStreams checks what to read: one stream, several, or those of a tracker.
func (c Config) checkStreams(f *faults, tracked bool) {
	if c.Streams != nil && len(c.Streams) == 0 && !tracked && c.StreamName == "" && c.StreamARN == "" {
		f.add("Streams", "empty", "at least one stream, or StreamName in its place; streams that come and go are named by a StreamTracker")
		return
	}
	if len(c.Streams) == 0 && !tracked {
		checkStream(f, "", c.StreamName, c.StreamARN)
		checkPosition(f, "InitialPosition", c.InitialPosition)
		if n := c.FormerStreams; n.Deletion != "" && n.Deletion != KeepLeases || len(n.Listed) > 0 {
			f.add("FormerStreams", "set", "nothing without Streams or a StreamTracker: a worker of one stream has no others")
		}
		return
	}
	what := "Streams"
	if tracked {
		what = "a StreamTracker"
		if len(c.Streams) > 0 {
			f.add("Streams", fmt.Sprintf("%d streams", len(c.Streams)), "none beside "+what)
		}
	}
	for _, other := range []struct{ name, value string }{{"StreamName", c.StreamName}, {"StreamARN", c.StreamARN}} {
		if other.value != "" {
			f.add(other.name, strconv.Quote(other.value), "none beside "+what)
		}
	}
	if c.InitialPosition != (InitialPosition{}) {
		f.add("InitialPosition", c.InitialPosition.String(), "none beside "+what+", where each stream has its own")
	}
	for i, s := range c.Streams {
		path := fmt.Sprintf("Streams[%d]", i)
		s.check(f, path+".")
		for j, other := range c.Streams[:i] {
			id, _ := s.Identifier()
			switch apart := s.ToTellApart(other); {
			case id.StreamName == "" || !s.MayBe(other):
			case apart != "":
				f.add(path, strconv.Quote(s.StreamARN), fmt.Sprintf("each stream once: Streams[%d], %q, may be the same: %s", j, other.StreamARN, apart))
			default:
				f.add(path, strconv.Quote(id.StreamName), fmt.Sprintf("each stream once: Streams[%d] is or may be the same", j))
			}
		}
	}
}

package checkpoint

// ExtendedSequenceNumber is a place in a shard: a record's sequence number and, inside a KPL aggregate, the user
// record's index. (KCL: ExtendedSequenceNumber)
type ExtendedSequenceNumber struct {
	SequenceNumber    string // decimal digits, or one of the sentinels TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END
	SubSequenceNumber int64  // index of the user record inside an aggregate; 0 otherwise and for sentinels
}

// The sentinels.
var (
	TrimHorizon = ExtendedSequenceNumber{SequenceNumber: "TRIM_HORIZON"}
	Latest      = ExtendedSequenceNumber{SequenceNumber: "LATEST"}
	AtTimestamp = ExtendedSequenceNumber{SequenceNumber: "AT_TIMESTAMP"}
	ShardEnd    = ExtendedSequenceNumber{SequenceNumber: "SHARD_END"}
)

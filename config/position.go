package config

import "time"

// InitialPosition is where reading starts in a shard that has no checkpoint. The zero value is TRIM_HORIZON.
// Two positions may be compared with ==, as far as their times may. (KCL: InitialPositionInStreamExtended)
type InitialPosition struct {
	kind positionKind
	at   time.Time
}

type positionKind int

const (
	trimHorizon positionKind = iota
	latest
	atTimestamp
)

// TrimHorizon starts with the oldest record that the stream still has.
func TrimHorizon() InitialPosition { return InitialPosition{} }

// Latest starts with what is put after the application's first start.
func Latest() InitialPosition { return InitialPosition{kind: latest} }

// AtTimestamp starts with the first record that arrived at t or later. t must not lie in the future, which Kinesis refuses
// when the worker starts to read, nor before 1970; Kinesis looks at milliseconds.
func AtTimestamp(t time.Time) InitialPosition { return InitialPosition{kind: atTimestamp, at: t} }

// IsLatest reports whether the position is LATEST.
func (p InitialPosition) IsLatest() bool { return p.kind == latest }

// Timestamp returns the time of an AT_TIMESTAMP position.
func (p InitialPosition) Timestamp() (t time.Time, ok bool) { return p.at, p.kind == atTimestamp }

// String returns KCL's name of the position, with the time of AT_TIMESTAMP in UTC behind it.
func (p InitialPosition) String() string {
	switch p.kind {
	case latest:
		return "LATEST"
	case atTimestamp:
		return "AT_TIMESTAMP " + p.at.UTC().Format(time.RFC3339Nano)
	case trimHorizon:
	}
	return "TRIM_HORIZON"
}

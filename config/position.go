package config

import "time"

// InitialPosition is where reading starts in a shard that has no checkpoint. The zero value is TRIM_HORIZON.
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

// AtTimestamp starts with the first record that arrived at t or later.
func AtTimestamp(t time.Time) InitialPosition { return InitialPosition{kind: atTimestamp, at: t} }

// IsLatest reports whether the position is LATEST.
func (p InitialPosition) IsLatest() bool { return p.kind == latest }

// Timestamp returns the time of an AT_TIMESTAMP position.
func (p InitialPosition) Timestamp() (t time.Time, ok bool) { return p.at, p.kind == atTimestamp }

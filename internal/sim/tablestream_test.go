package sim

import (
	"testing"
	"time"
)

func TestDraw_letsOneFleetInEightReadATablesStream(t *testing.T) {
	t.Parallel()
	const seeds = 4000
	tables, nights, short := 0, 0, 0
	for seed := range uint64(seeds) {
		s := Draw(seed, 100*time.Second)
		if !s.Table {
			if s.has(Roll) || s.Retention > 0 {
				t.Fatalf("a fleet that reads Kinesis has faults of a table's stream: %v", s)
			}
			continue
		}
		tables++
		if s.has(Night) {
			nights++
		}
		if s.Retention > 0 {
			short++
		}
		for _, k := range []Kind{Merge, DeleteStream, CutEvents, SilentEvents, TakenEvents, LostConsumer} {
			if s.has(k) {
				t.Fatalf("a table's stream has a fault that it cannot have: %v", s)
			}
		}
		if s.Streams != 1 || s.Reading != ByPolling || s.From == AtTimestamp || !s.has(Roll) && !s.has(Split) {
			t.Fatalf("a table's stream is read as it cannot be, or its shards do not end: %v", s)
		}
	}
	if part := float64(tables) / seeds; part < 0.11 || part > 0.14 {
		t.Errorf("a part of %.3f of all fleets reads a table's stream, want an eighth", part)
	}
	if nights == 0 || short == 0 {
		t.Errorf("of %d fleets that read a table's stream %d have a night and %d a short retention, want some of each", tables, nights, short)
	}
}

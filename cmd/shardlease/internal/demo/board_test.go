package demo

import (
	"bytes"
	"strings"
	"testing"

	"github.com/shardlease/shardlease/internal/audit"
	"github.com/shardlease/shardlease/internal/loop"
)

func TestBoard_showsWhoHoldsWhatAndHowFar(t *testing.T) {
	t.Parallel()
	const zero, one = "shardId-000000000000", "shardId-000000000001"
	b := newBoard(loop.Real(), 4)
	b.join("worker-1")
	b.join("worker-2")
	say := func(worker string, r audit.Report) { b.take(audit.Arrival{Report: r, Worker: worker, At: b.now()}) }
	say("worker-1", audit.Report{Kind: audit.Ready})
	say("worker-1", audit.Report{Kind: audit.Taken, Shard: zero})
	say("worker-1", audit.Report{Kind: audit.Started, Shard: zero, Token: 1})
	say("worker-2", audit.Report{Kind: audit.Started, Shard: one, Token: 1})
	for range 4 {
		b.store("a", zero)
	}
	say("worker-1", audit.Report{Kind: audit.Batch, Shard: zero, Token: 1, Keys: []string{"a", "a", "a"}, Numbers: []int64{1, 2, 2}})

	var out bytes.Buffer
	s := &screen{out: &out, terminal: true, board: b}
	s.draw()
	for _, want := range []string{
		"stored 4 of 4   delivered 2", "shard 0   worker-1   ███████████████░░░░░░░░░░░░░░░       2 of 4", "shard 1   worker-2",
		"worker-1 running   worker-2 starting", "worker-1 took shard 0",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the screen shows\n%s\nwant %q", &out, want)
		}
	}
	if held := b.doom("worker-1", audit.Killed); len(held) != 1 || held[0] != zero {
		t.Errorf("worker-1 held %q, want %s", held, zero)
	}
	say("worker-1", audit.Report{Kind: audit.Exited, Err: "ended with signal: killed"})
	say("worker-2", audit.Report{Kind: audit.Taken, Shard: zero, From: "worker-1"})
	say("worker-2", audit.Report{Kind: audit.Started, Shard: zero, Token: 2})
	out.Reset()
	s.draw()
	for _, want := range []string{"\x1b[", "shard 0   worker-2", "kill -9 of worker-1, which reads shard 0", "worker-1 is gone", "worker-2 took shard 0 from worker-1, 0.0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the screen shows\n%s\nwant %q", &out, want)
		}
	}
	if f := b.faults(); len(f) != 0 {
		t.Errorf("faults = %q, want none: it was killed on purpose", f)
	}
	say("worker-2", audit.Report{Kind: audit.Exited, Err: "ended with exit status 1; its last words: no such table"})
	if f := b.faults(); len(f) != 1 || !strings.Contains(f[0], "worker-2 ended with exit status 1; its last words: no such table") {
		t.Errorf("faults = %q, want that worker-2 ended by itself", f)
	}
}

func TestWrong_knowsWhichEndsWereMeant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		phase      phase
		said, want string
	}{
		{dying, "signal: killed", ""},
		{stopping, "", ""},
		{stopping, "exit status 1", "exit status 1"},
		{running, "", "ended without being asked to"},
		{running, "exit status 2", "exit status 2"},
		{starting, "", "ended without being asked to"},
	} {
		if got := wrong(c.phase, c.said); got != c.want {
			t.Errorf("wrong(%s, %q) = %q, want %q", c.phase, c.said, got, c.want)
		}
	}
}

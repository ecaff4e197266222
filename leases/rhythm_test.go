package leases

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
)

// javaRows is what a look shows of a Java worker that began to renew its rows at t0.
func javaRows(owner string, rows int, failover, since time.Duration, checkpoints bool) []Lease {
	every := failover/3 - 25*time.Millisecond
	var all []Lease
	for i := range rows {
		l := Lease{Key: fmt.Sprint(owner, i), Owner: owner, Counter: int64(since / every), Checkpoint: checkpoint.TrimHorizon}
		if checkpoints {
			l.Checkpoint.SequenceNumber = strconv.FormatInt(l.Counter+1, 10)
		}
		all = append(all, l)
	}
	return all
}

func TestRhythms_tellWhoseFailoverTimeDiffers(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(1_000_000, 0)
	const own = 10 * time.Second
	for name, c := range map[string]struct {
		rows     int
		failover time.Duration
		busy     bool          // each renewal is a checkpoint
		dies     time.Duration // renews no more from then on; 0: never
		found    bool
	}{
		"the same":                              {4, 10 * time.Second, false, 0, false},
		"the same, one row":                     {1, 10 * time.Second, false, 0, false},
		"a little longer":                       {4, 14 * time.Second, false, 0, false},
		"a little shorter":                      {4, 7 * time.Second, false, 0, false},
		"twice":                                 {2, 20 * time.Second, false, 0, true},
		"so long that we would take its leases": {3, time.Minute, false, 0, true},
		"many rows, a little shorter":           {200, 7 * time.Second, false, 0, false},
		"a third":                               {1, 3 * time.Second, false, 0, true},
		"the same, but dead":                    {3, 10 * time.Second, false, 30 * time.Second, false},
		"a third, but its checkpoints always move": {3, 3 * time.Second, true, 0, false},
	} {
		r := newRhythms("me", own)
		var found []otherFailover
		for at := time.Duration(0); at < 10*time.Minute; at += own / 2 {
			since := at
			if c.dies > 0 {
				since = min(since, c.dies)
			}
			found = append(found, r.look(javaRows("java", c.rows, c.failover, since, c.busy), t0.Add(at))...)
		}
		switch {
		case !c.found && len(found) > 0, c.found && (len(found) != 1 || !found[0].java || found[0].peer != "java"):
			t.Errorf("%s: found %v, want it once: %t", name, found, c.found)
		case c.found && (found[0].time.Seconds() < 0.85*c.failover.Seconds() || found[0].time.Seconds() > 1.15*c.failover.Seconds()):
			t.Errorf("%s: estimated %v, want about %v", name, found[0].time, c.failover)
		}
	}
}

func TestRhythms_readAGoWorkersFailoverTimeFromItsRows(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	row := func(worker string, failover time.Duration) Lease {
		return Lease{Key: worker, Owner: worker, Counter: 7, Tenure: &Tenure{Worker: worker, Nonce: "n", At: 7, Failover: failover}}
	}
	r := newRhythms("me", 10*time.Second)
	rows := []Lease{row("same", 10*time.Second), row("other", 20*time.Second), row("me", time.Second), row("old", 0)}
	found := append(r.look(rows, at), r.look(rows, at.Add(5*time.Second))...)
	if want := (otherFailover{"other", false, 20 * time.Second}); len(found) != 1 || found[0] != want {
		t.Errorf("found %v, want %v once", found, want)
	}
}

func TestTaker_reportsAJavaWorkerWithAnotherFailoverTime(t *testing.T) {
	t.Parallel()
	for failover, told := range map[time.Duration]int{10 * time.Second: 0, 4 * time.Second: 1} {
		inBubble(t, 2, func(b *bubble) {
			w := b.worker("go", "go")
			var events []config.FailoverEvent // of the taker's goroutine, until it has stopped
			w.taker.hooks = &config.Hooks{FailoverDiffers: func(e config.FailoverEvent) { events = append(events, e) }}
			b.javaWrites(0, "java")
			w.start()
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); b.pass(failover/3 - 25*time.Millisecond) {
				b.javaWrites(0, "java")
			}
			w.stop()
			if len(events) != told {
				t.Errorf("beside a Java worker with a failover time of %v: %v, want %d events", failover, events, told)
			}
			for _, e := range events {
				if e.Worker != "go" || e.Peer != "java" || !e.Java || e.Own != 10*time.Second || e.Peers < 3500*time.Millisecond || e.Peers > 4500*time.Millisecond {
					t.Errorf("event %+v, want one of 10s and about 4s", e)
				}
			}
		})
	}
}

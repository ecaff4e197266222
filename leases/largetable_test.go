package leases

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/emulator"
)

var largeRows = flag.Int("large-rows", 260, "rows of the table in TestTaker_sharesATableThatIsTooLargeForWholeLooks")

// Real takers and renewers at a table that they cannot read whole within their budget: starters go by the lobby, and then each
// watches a part. Rows are few and large, because what decides is what a look costs.
func TestTaker_sharesATableThatIsTooLargeForWholeLooks(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	const workers, event = 10, 2.5 // the second: how much more than KCL 2.x may be read in the minute after an event
	inBubble(t, *largeRows, func(b *bubble) {
		b.pad(*largeRows, 1_150_000 / *largeRows)
		b.cfg.ReadBudget = 20
		b.server.ResetCounts()
		if _, err := b.table.List(b.ctx); err != nil {
			t.Fatal(err)
		}
		units := b.server.Counts().Of(emulator.CountKey{Operation: "Scan"}).ReadUnits
		if units <= lobbyUnits {
			t.Fatalf("a look at everything costs %v units, want more than %d", units, lobbyUnits)
		}
		fleet := newLargeFleet(b, workers)
		// KCL 2.x reads everything each other FailoverTime.
		java := func(n int) float64 {
			return float64(n) * units * time.Minute.Seconds() / (2 * b.cfg.FailoverTime).Seconds()
		}

		fleet.balanced("start", 3*b.cfg.FailoverTime, event*java(workers))
		b.pass(30 * second)
		fleet.calm(java(workers))

		crashed := fleet.living[3]
		died, had := b.since(), crashed.renewer.Held()
		crashed.stop()
		fleet.without(crashed)
		fleet.balanced("a crash", 4*b.cfg.FailoverTime, event*java(workers))
		var gaps []time.Duration
		for _, h := range had {
			gaps = append(gaps, fleet.takenAt(h.key, died)-died)
		}
		slices.Sort(gaps)
		t.Logf("leases of a dead worker were taken after %v to %v, half of them by %v", gaps[0], gaps[len(gaps)-1], gaps[len(gaps)/2])
		// A fleet of ten looks at what it watches each D/2, or up to a tenth later: so late may the last renewal have been seen. Then D
		// passes, and where the two watchers of a row have their share already, D/5 to 3D/10 more: 1.85 D, and the way to the table.
		if longest := gaps[len(gaps)-1]; longest > 186*b.cfg.FailoverTime/100 {
			t.Errorf("the last lease of a dead worker was taken after %v, want 1.86 times FailoverTime at most", longest)
		}
		b.pass(30 * second)

		leaving := fleet.living[5]
		lost := fleet.lost()
		leaving.stopTaking()
		leaving.renewer.Leave(b.ctx)
		fleet.without(leaving)
		fleet.balanced("a stop", 4*b.cfg.FailoverTime, event*java(workers))
		if n := len(leaving.renewer.Held()); n != 0 {
			t.Errorf("the worker that stops has %d leases left", n)
		}
		if n := fleet.lost() - lost; n != 0 {
			t.Errorf("%d leases were lost by a stop, want them to be handed over", n)
		}

		fleet.add("new")
		fleet.balanced("a join", 4*b.cfg.FailoverTime, event*java(workers))
		b.pass(30 * second)
		fleet.calm(java(workers))
	})
}

// pad makes each row so many bytes larger, by an attribute that no worker knows.
func (b *bubble) pad(rows, bytes int) {
	b.t.Helper()
	api := dynamodb.NewFromConfig(b.server.ClientConfig("observer"))
	for i := range rows {
		_, err := api.UpdateItem(b.ctx, &dynamodb.UpdateItemInput{
			TableName: &b.cfg.TableName, Key: item{attrKey: str(shardKey(i))},
			UpdateExpression: aws.String("SET note = :note"), ExpressionAttributeValues: item{":note": str(strings.Repeat("x", bytes))},
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// largeFleet are the workers of the test above.
type largeFleet struct {
	*bubble
	living []*testWorker
	all    []*testWorker
}

func newLargeFleet(b *bubble, n int) *largeFleet {
	f := &largeFleet{bubble: b}
	for i := range n {
		f.add("worker-" + string(rune('a'+i)))
		b.pass(300 * time.Millisecond)
	}
	return f
}

func (f *largeFleet) add(id string) {
	w := f.worker(id, id).start()
	f.living, f.all = append(f.living, w), append(f.all, w)
}

func (f *largeFleet) without(w *testWorker) {
	f.living = slices.DeleteFunc(slices.Clone(f.living), func(o *testWorker) bool { return o == w })
}

// balanced waits until all rows are held by the living, one more or less each, and sees to it that a minute from now on does
// not cost more than so many units.
func (f *largeFleet) balanced(after string, within time.Duration, units float64) {
	f.t.Helper()
	began := f.since()
	f.server.ResetCounts()
	defer func() {
		for _, w := range f.living {
			if f.t.Failed() {
				f.t.Logf("%s: %s holds %d, should hold %d, reads next %+v", after, w.id, len(w.renewer.Held()), w.taker.planned.Target, w.taker.reader.Scope())
			}
		}
	}()
	at := f.within(within, after+": all owned, balanced", func() bool {
		least, most, sum := *largeRows, 0, 0
		for _, w := range f.living {
			n := len(w.renewer.Held())
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		return sum == *largeRows && most-least <= 1
	})
	f.pass(max(0, time.Minute-(f.since()-began)))
	read := f.read()
	f.t.Logf("%s: balanced after %v, %.0f units in the first minute, at most %.0f", after, at-began, read, units)
	if read > units {
		f.t.Errorf("%s: read %.0f units in a minute, want %.0f at most", after, read, units)
	}
}

// calm sees to it that a minute without an event costs no more than so many units, and that nothing moves.
func (f *largeFleet) calm(units float64) {
	f.t.Helper()
	taken := f.taken()
	f.server.ResetCounts()
	f.pass(time.Minute)
	read := f.read()
	f.t.Logf("calm: %.0f units a minute, KCL 2.x %.0f", read, units)
	if read > units {
		f.t.Errorf("calm: read %.0f units a minute, want %.0f at most", read, units)
	}
	if n := f.taken() - taken; n != 0 {
		f.t.Errorf("calm: %d leases moved", n)
	}
}

// read is what the workers have read since the counts were set to nothing.
func (f *largeFleet) read() float64 {
	counts := f.server.Counts()
	return counts.Of(emulator.CountKey{}).ReadUnits - counts.Of(emulator.CountKey{Client: "observer"}).ReadUnits
}

func (f *largeFleet) taken() (n int) {
	for _, w := range f.all {
		n += w.count("taken")
	}
	return n
}

func (f *largeFleet) lost() (n int) {
	for _, w := range f.all {
		n += w.count("lost")
	}
	return n
}

// takenAt is when a lease was first taken by a worker that lives, after that time.
func (f *largeFleet) takenAt(key string, after time.Duration) time.Duration {
	first := time.Duration(1<<63 - 1)
	for _, w := range f.living {
		w.mu.Lock()
		if at, ok := w.taken[key]; ok && at >= after {
			first = min(first, at)
		}
		w.mu.Unlock()
	}
	return first
}

package leases

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/config"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(d time.Duration) time.Time { return t0.Add(d) }

const second = time.Second

// goLease is a row that a Go worker wrote last.
func goLease(key, owner string, counter int64) Lease {
	l := Lease{Key: key, Owner: owner, Counter: counter}
	l.Tenure = &Tenure{Worker: owner, Nonce: "host/1/" + owner + "/" + key, At: counter, Failover: 10 * second}
	return l
}

func testView(me string) View {
	return NewView(me, config.LeaseManagementConfig{FailoverTime: 10 * second})
}

func TestView_countsOnlyFromWhatItSawItself(t *testing.T) {
	t.Parallel()
	row := func(owner string, counter int64) []Lease { return []Lease{goLease("s", owner, counter)} }
	type step struct {
		at   time.Duration
		rows []Lease // nil: only time passes
		want Knowledge
	}
	for name, steps := range map[string][]step{
		"first sight is never stale": {{0, row("a", 7), Fresh}},
		"unowned is free at once":    {{0, row("", 7), Free}},
		"unchanged for the failover time is stale": {
			{0, row("a", 7), Fresh}, {5 * second, row("a", 7), Fresh}, {9999 * time.Millisecond, row("a", 7), Fresh}, {10 * second, row("a", 7), Stale},
		},
		"time alone makes it stale":    {{0, row("a", 7), Fresh}, {10 * second, nil, Stale}},
		"a renewal starts anew":        {{0, row("a", 7), Fresh}, {9 * second, row("a", 8), Fresh}, {18 * second, row("a", 8), Fresh}, {19 * second, nil, Stale}},
		"a renewal of a stale row":     {{0, row("a", 7), Fresh}, {10 * second, nil, Stale}, {11 * second, row("a", 8), Fresh}},
		"a jump of the counter counts": {{0, row("a", 7), Fresh}, {9 * second, row("a", 700), Fresh}, {18 * second, nil, Fresh}},
		"an old replica changes nothing": {
			{0, row("a", 7), Fresh}, {2 * second, row("a", 8), Fresh}, {4 * second, row("a", 7), Fresh}, {6 * second, row("a", 8), Fresh}, {12 * second, nil, Stale},
		},
		"a row made anew is seen after a failover time": {
			{0, row("a", 7), Fresh}, {5 * second, row("", 0), Fresh}, {10 * second, row("", 0), Stale}, {11 * second, row("", 0), Free},
		},
		"a row that was gone in between is seen at once": {{0, row("a", 7), Fresh}, {5 * second, []Lease{}, Unseen}, {6 * second, row("", 0), Free}},
		"an owner without a move of the counter is new":  {{0, row("", 7), Free}, {20 * second, row("a", 7), Fresh}, {29 * second, nil, Fresh}, {30 * second, nil, Stale}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := testView("me")
			for i, s := range steps {
				if s.rows == nil {
					v = v.At(after(s.at))
				} else {
					v = v.Look(s.rows, after(s.at))
				}
				if got := v.Get("s").Knowledge; got != s.want {
					t.Fatalf("after step %d, at %v: %v, want %v", i, s.at, got, s.want)
				}
			}
		})
	}
}

func TestView_waitsForTheLargerOfBothFailoverTimes(t *testing.T) {
	t.Parallel()
	slow := goLease("slow", "a", 1)
	slow.Tenure.Failover = time.Minute
	quick := goLease("quick", "a", 1)
	quick.Tenure.Failover = 2 * second
	java := Lease{Key: "java", Owner: "j", Counter: 4, Tenure: &Tenure{Worker: "a", At: 3, Failover: time.Minute}}
	v := testView("me").Look([]Lease{slow, quick, java}, t0)
	for key, want := range map[string]time.Duration{"slow": time.Minute, "quick": 10 * second, "java": 10 * second} {
		if got := v.Expires(key).Sub(t0); got != want {
			t.Errorf("%s expires after %v, want %v", key, got, want)
		}
	}
	if at, ok := v.NextExpiry(); !ok || at != after(10*second) {
		t.Errorf("next expiry is %v, %v; want 10 s", at.Sub(t0), ok)
	}
	if at, ok := v.At(after(10 * second)).NextExpiry(); !ok || at != after(time.Minute) {
		t.Errorf("then next expiry is %v, %v; want 1 min", at.Sub(t0), ok)
	}
}

func TestView_consistentReadsAndOwnWritesWin(t *testing.T) {
	t.Parallel()
	v := testView("me").Look([]Lease{goLease("s", "a", 7)}, t0)
	v = v.Row(goLease("s", "me", 8), after(second))
	late := v.Look([]Lease{goLease("s", "a", 7)}, after(2*second))
	if got := late.Get("s").Lease.Owner; got != "me" {
		t.Errorf("an old replica makes the owner %q", got)
	}
	anew := v.Row(Lease{Key: "s"}, after(3*second))
	if got := anew.Get("s"); got.Knowledge != Free {
		t.Errorf("a consistent read of a row made anew leaves it %v", got.Knowledge)
	}
	if got := v.Gone("s").Get("s").Knowledge; got != Unseen {
		t.Errorf("a row that is gone is %v", got)
	}
	if v.Get("s").Lease.Owner != "me" || v.Len() != 1 {
		t.Error("a view changed behind its reader's back")
	}
}

// Whatever replicas say in whatever order: a row is stale only if its newest counter was first seen a failover time ago,
// and then it is.
func TestView_isStaleExactlyWhenTheNewestCounterStoodStill(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := testView("me")
		var now time.Duration
		newest, since := int64(-1), time.Duration(0)
		counter := int64(5)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond
			if rapid.Bool().Draw(t, "renewed") {
				counter++
			}
			if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
				v = v.At(after(now))
			} else {
				seen := max(0, counter-int64(rapid.IntRange(0, 2).Draw(t, "lag")))
				lost := newest >= 0 && seen < newest && now-v.Get("s").Read.Sub(t0) > 10*second
				v = v.Look([]Lease{goLease("s", "a", seen)}, after(now))
				if seen > newest || lost {
					newest, since = seen, now
				}
			}
			want := Unseen
			if newest >= 0 {
				if want = Fresh; now-since >= 10*second {
					want = Stale
				}
			}
			if got := v.Get("s").Knowledge; got != want {
				t.Fatalf("at %v the row is %v, want %v (counter %d since %v)", now, got, want, newest, since)
			}
		}
	})
}

func TestView_showsJavaWorkersByTheLeasesTheyOwn(t *testing.T) {
	t.Parallel()
	change := func(f func(*Lease)) Lease {
		l := goLease("s", "a", 7)
		f(&l)
		return l
	}
	for name, c := range map[string]struct {
		row  Lease
		want bool
	}{
		"a Go worker's":                    {change(func(*Lease) {}), false},
		"nobody's":                         {Lease{Key: "s", Counter: 1}, false},
		"released":                         {change(func(l *Lease) { l.Owner = "" }), false},
		"asked for by a Go worker":         {change(func(l *Lease) { l.Owner, l.HandoffTo, l.CheckpointOwner = "b", "b", "a" }), false},
		"handed over":                      {change(func(l *Lease) { l.Owner, l.HandoffTo = "b", "b" }), false},
		"never a Go worker's":              {Lease{Key: "s", Owner: "j", Counter: 7}, true},
		"taken or renewed by a Java 2.x":   {change(func(l *Lease) { l.Counter++ }), true},
		"assigned by a leader of KCL 3.x":  {change(func(l *Lease) { l.Owner, l.CheckpointOwner = "j", "a" }), true},
		"assigned without being asked for": {change(func(l *Lease) { l.Owner = "j" }), true},
	} {
		if got := testView("a").Look([]Lease{c.row}, t0).JavaInSight(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

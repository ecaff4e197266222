package leases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
)

func planConfig() config.LeaseManagementConfig {
	return config.LeaseManagementConfig{FailoverTime: 10 * second, LeaseTakerInterval: 5 * second}
}

// rows makes leases of a text such as "1:a 2:b 3:- 4:java! 5:a#": key, owner ("-": none), "!" for an owner that is a Java
// worker, "#" for a finished shard, "<" for an owner that is stopping.
func rows(text string) []Lease {
	var out []Lease
	for f := range strings.FieldsSeq(text) {
		key, owner, _ := strings.Cut(f, ":")
		owner, ended := strings.CutSuffix(owner, "#")
		owner, java := strings.CutSuffix(owner, "!")
		var l Lease
		switch {
		case owner == "-":
			l = Lease{Key: key, Counter: 1}
		case java:
			l = Lease{Key: key, Owner: owner, Counter: 1}
		default:
			l = goLease(key, strings.TrimSuffix(owner, "<"), 1)
			l.Tenure.Leaving = strings.HasSuffix(owner, "<")
		}
		if ended {
			l.Checkpoint = checkpoint.ShardEnd
		}
		out = append(out, l)
	}
	return out
}

// renewed is rows with every counter moved on, as those of live owners are.
func renewed(ls []Lease, by int64) []Lease {
	out := slices.Clone(ls)
	for i := range out {
		if out[i].Owner == "" {
			continue
		}
		out[i].Counter += by
		if out[i].Tenure != nil {
			tenure := *out[i].Tenure
			tenure.At = out[i].Counter
			out[i].Tenure = &tenure
		}
	}
	return out
}

func names(ls []Lease) string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Key)
	}
	return strings.Join(out, " ")
}

// A settled view: everybody in it has been seen alive for a while.
func settledView(me, text string) View {
	v := testView(me)
	for i := range int64(5) {
		v = v.Look(renewed(rows(text), i), after(time.Duration(i)*5*second))
	}
	return v
}

func TestPlan(t *testing.T) {
	t.Parallel()
	dead := func(me, alive, gone string) View { // gone's owners have not moved for a failover time
		v := testView(me)
		for i := range int64(4) {
			v = v.Look(append(renewed(rows(alive), i), rows(gone)...), after(time.Duration(i)*5*second))
		}
		return v
	}
	for name, c := range map[string]struct {
		view      View
		cfg       func(*config.LeaseManagementConfig)
		take, ask int
		held      int
		target    int
	}{
		"one unowned":                             {view: testView("me").Look(rows("1:-"), t0), take: 1, target: 1},
		"fresh table, first look: exactly one":    {view: testView("me").Look(rows("1:- 2:- 3:-"), t0), take: 1, target: 3},
		"fresh table, second look: all, if alone": {view: testView("me").Look(rows("1:me 2:- 3:-"), t0).Look(rows("1:me 2:- 3:-"), after(500*time.Millisecond)), take: 2, held: 1, target: 3},
		"owned, seen once":                        {view: testView("me").Look(rows("1:bar"), t0)},
		"own stale lease, regained":               {view: dead("me", "", "1:me"), take: 1, target: 1},
		"another's stale lease":                   {view: dead("me", "", "1:bar"), take: 1, target: 1},
		"one short, others at their share":        {view: settledView("me", "1:bar 2:bar 3:baz 4:baz 5:me"), held: 1, target: 1},
		"unowned before a live owner's":           {view: settledView("me", "1:- 2:bar 3:bar 4:bar"), take: 1, target: 2},
		"a joiner asks for one":                   {view: settledView("me", "1:bar 2:bar 3:bar 4:bar"), ask: 1, target: 2},
		"all that it should hold":                 {view: settledView("me", "1:bar 2:bar 3:bar 4:bar 5:bar 6:me"), ask: 2, held: 1, target: 3},
		"one at a time, if not allowed more":      {view: settledView("me", "1:bar 2:bar 3:bar 4:bar 5:bar 6:me"), cfg: func(c *config.LeaseManagementConfig) { c.MaxLeasesToStealAtOneTime = 1 }, ask: 1, held: 1, target: 3},
		"a Java owner's one at a time":            {view: settledView("me", "1:j! 2:j! 3:j! 4:j! 5:j! 6:me"), ask: 1, held: 1, target: 3},
		"a leaving owner's, after a while":        {view: settledView("me", "1:bar< 2:bar< 3:bar< 4:baz 5:baz 6:me 7:baz"), ask: 3, held: 1, target: 4},
		"more workers than leases":                {view: settledView("me", "1:a 2:b 3:c")},
		"balanced":                                {view: settledView("me", "1:a 2:a 3:me 4:me"), held: 2, target: 2},
		"above its share, nothing to do":          {view: settledView("me", "1:a 2:me 3:me 4:me"), held: 3, target: 2},
		"own limit":                               {view: settledView("me", "1:a 2:a 3:a 4:a 5:- 6:me"), cfg: func(c *config.LeaseManagementConfig) { c.MaxLeasesForWorker = 1 }, held: 1, target: 1},
		"dead owner's all, if alone":              {view: dead("me", "1:me", "2:a 3:a 4:a"), take: 3, held: 1, target: 4},
		"no asking while a dead owner's wait":     {view: dead("me", "1:me 2:b 3:b 4:b 5:b 6:b 7:b 8:b", "9:a 10:a"), take: 2, held: 1, target: 5},
		"finished leases weigh nothing":           {view: settledView("me", "1:a 2:a 3:a# 4:a# 5:me 6:me"), held: 2, target: 2},
		"a finished lease whose owner died":       {view: dead("me", "1:me", "2:a#"), take: 1, held: 1, target: 1},
		"a finished lease nobody owns":            {view: settledView("me", "1:me 2:-#"), held: 1, target: 1},
		"a Java owner's surplus":                  {view: settledView("me", "1:j! 2:j! 3:j! 4:me"), ask: 1, held: 1, target: 2},
		"Java owners are not waited for":          {view: settledView("me", "1:j! 2:- 3:- 4:me 5:me"), take: 2, held: 2, target: 4},
		"empty table":                             {view: testView("me").Look(nil, t0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := planConfig()
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			m := Plan("me", c.view, cfg, nil)
			if len(m.Take) != c.take || len(m.Ask) != c.ask {
				t.Errorf("takes [%s] and asks for [%s], want %d and %d", names(m.Take), names(m.Ask), c.take, c.ask)
			}
			if m.Held != c.held || m.Target != c.target {
				t.Errorf("holds %d of %d, want %d of %d", m.Held, m.Target, c.held, c.target)
			}
		})
	}
}

func TestPlan_leavesHandoffsAlone(t *testing.T) {
	t.Parallel()
	asked := goLease("1", "a", 1)
	asked.Owner, asked.CheckpointOwner, asked.HandoffTo = "b", "a", "b"
	transit := goLease("2", "a", 1)
	transit.Owner, transit.HandoffTo = "b", "b"
	ls := append(rows("3:a 4:a 5:me"), asked, transit)
	v := testView("me")
	for i := range int64(5) {
		v = v.Look(renewed(ls, i), after(time.Duration(i)*5*second))
	}
	// a has 2, b has 2 to come, me 1: nobody has too much.
	if m := Plan("me", v, planConfig(), nil); len(m.Take)+len(m.Ask) != 0 {
		t.Errorf("takes [%s] and asks for [%s], want nothing", names(m.Take), names(m.Ask))
	}
}

func TestPlan_startsSlowlyWithLiveOwnersAndFastWithWhatNobodyReads(t *testing.T) {
	t.Parallel()
	cfg := planConfig()
	cfg.MaxLeasesToStealAtOneTime = 100
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "o%02d:old f%02d:- ", i, i)
	}
	look := func(v View, mine int, at time.Duration, others string) View {
		ls := renewed(rows(text.String()+others), int64(at/second))
		for i := range ls {
			if strings.HasPrefix(ls[i].Key, "f") && mine > 0 {
				ls[i], mine = goLease(ls[i].Key, "me", 1), mine-1
			}
		}
		return v.Look(ls, after(at))
	}
	v := look(testView("me"), 0, 0, "")
	if m := Plan("me", v, cfg, nil); len(m.Take) != 1 || m.Again != 500*time.Millisecond {
		t.Errorf("first look takes %d and looks again after %v, want 1 and 500ms", len(m.Take), m.Again)
	}
	// Another starter appears with the second look: eight leases do not wait, the others do.
	v = look(v, 1, 500*time.Millisecond, "x1:other")
	if m := Plan("me", v, cfg, nil); len(m.Take) != 7 {
		t.Errorf("second look takes %d, want up to eight in all", len(m.Take))
	}
	// Of 121 leases an eighth in the third second, a quarter in the fourth, and then all that is free and nobody else's.
	held := 8
	for at, most := range map[time.Duration]int{2100 * time.Millisecond: 15, 3100 * time.Millisecond: 30} {
		m := Plan("me", look(v, 8, at, "x1:other"), cfg, nil)
		if held+len(m.Take) != most || len(m.Ask) > 0 {
			t.Errorf("after %v takes %d and asks for %d, want to hold %d and no asking", at, len(m.Take), len(m.Ask), most)
		}
	}
	v = look(v, 20, 4100*time.Millisecond, "x1:other")
	m := Plan("me", v, cfg, nil)
	if m.Held+len(m.Take) < 30 || m.Held+len(m.Take) == m.Target || len(m.Ask) > 0 {
		t.Errorf("in the fifth second holds %d, takes %d and asks for %d of %d, want all that is free and no asking", m.Held, len(m.Take), len(m.Ask), m.Target)
	}
}

func TestPlan_giveChildrenToTheirParentsOwner(t *testing.T) {
	t.Parallel()
	ls := rows("p:me# 1:a 2:a 3:b 4:b 5:me 6:me c1:- c2:- 7:a 8:b")
	for i := range ls {
		if strings.HasPrefix(ls[i].Key, "c") {
			ls[i].ParentShardIDs = []string{"p"}
		}
	}
	v := testView("me")
	for i := range int64(5) {
		v = v.Look(renewed(ls, i), after(time.Duration(i)*5*second))
	}
	// Ten leases for three: two of a's or b's or me's are four; the child that costs no balance stays near.
	m := Plan("me", v, planConfig(), nil)
	if len(m.Take) != 2 {
		t.Errorf("takes [%s], want both children: the one lease more is worth no move", names(m.Take))
	}
}

func TestPlan_stepsInForAWorkerThatDoesNotTakeItsPart(t *testing.T) {
	t.Parallel()
	// b stops: it has released a lease and still holds one. By the plan the free one would be b's.
	ls := rows("1:me 2:me 3:b 4:-")
	v := testView("me")
	var took time.Duration
	for at := time.Duration(0); at < 30*second && took == 0; at += second {
		v = v.Look(renewed(ls, int64(at/(3*second))), after(at))
		if m := Plan("me", v, planConfig(), nil); len(m.Take) > 0 {
			took = at
		}
	}
	if took < 5*second || took > 12*second {
		t.Errorf("took the free lease after %v, want after everybody has looked and, as we have just started, has had time to take its share, and before 12 s", took)
	}
}

// A worker is started in place of one that died. It is the emptiest, and so the one that should have the dead one's leases; but to it
// they are not stale before they have stood still for a FailoverTime since its start.
func TestPlan_doesNotWaitForAWorkerThatCameLaterThanTheDeath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		started  time.Duration // of the one in its place, after the last look that showed the dead one move
		min, max time.Duration
	}{
		"long after":  {6 * second, 10 * second, 10 * second},
		"right after": {2 * second, 12500 * time.Millisecond, 13 * second},
	} {
		before, ls := rows("1:me 2:me 3:me 4:dead 5:dead 6:dead"), rows("1:me 2:me 3:new 4:dead 5:dead 6:dead")
		v := testView("me")
		for i := range int64(6) {
			v = v.Look(renewed(before, i), after(time.Duration(i)*5*second))
		}
		death := 25 * second
		var took time.Duration
		for at := time.Second; at < 30*second && took == 0; at += second / 4 {
			live := renewed(before, 5+int64(at/(3*second)))
			if at >= c.started {
				live = renewed(ls, 5+int64(at/(3*second)))
			}
			v = v.Look(append(live[:3:3], renewed(before, 5)[3:]...), after(death+at))
			if m := Plan("me", v, planConfig(), nil); len(m.Take) == 3 {
				took = at
			}
		}
		if took < c.min || took > c.max {
			t.Errorf("%s: took all that the dead worker had after %v, want between %v and %v", name, took, c.min, c.max)
		}
	}
}

func TestLeaseCount_quotas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n          int
		max, count []int
		want       []int
	}{
		"even":                     {6, []int{0, 0, 0}, []int{6, 0, 0}, []int{2, 2, 2}},
		"the one more stays":       {7, []int{0, 0, 0}, []int{2, 3, 2}, []int{2, 3, 2}},
		"limits":                   {10, []int{1, 0, 0}, []int{0, 10, 0}, []int{1, 5, 4}},
		"limits below what is":     {10, []int{2, 3, 4}, []int{0, 0, 0}, []int{2, 3, 4}},
		"fewer leases than worker": {1, []int{0, 0, 0}, []int{0, 0, 1}, []int{0, 0, 1}},
	} {
		workers := make([]FleetWorker, len(c.max))
		for i, m := range c.max {
			workers[i] = FleetWorker{ID: fmt.Sprint("w", i), Max: m, Go: true}
		}
		if d := cmp.Diff(c.want, quotas(c.n, workers, c.count, nil)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
	}
}

func BenchmarkPlan_tenThousandLeasesHundredWorkers(b *testing.B) {
	var ls []Lease
	for i := range 10_000 {
		l := goLease(fmt.Sprintf("shardId-%012d", i), fmt.Sprintf("worker-%03d", i%100), 1)
		l.HashKeyRange = hashkey.Range{}
		ls = append(ls, l)
	}
	v := testView("worker-007").Look(ls, t0).Look(renewed(ls, 1), after(5*second))
	b.ReportAllocs()
	for b.Loop() {
		Plan("worker-007", v, planConfig(), LeaseCount{})
	}
}

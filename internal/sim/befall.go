package sim

import (
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/emulator"
)

// befall lets the schedule's faults happen, each at its time, until it is time to mend or something was found.
func (w *world) befall() {
	for i := range w.s.Faults {
		f := &w.s.Faults[i]
		w.wait(f.At - time.Since(w.j.began))
		if w.running.Err() != nil {
			return
		}
		w.j.note("", "", "FAULT %d: %s", i, f)
		w.applied++
		w.faults.Go(func() {
			w.happen(f)
			if f.Lasts > 0 {
				w.j.note("", "", "over: fault %d, %s", i, f.Kind)
			}
		})
	}
	w.wait(w.s.Lasts - time.Since(w.j.began))
}

// happen is one fault from its begin to its end.
func (w *world) happen(f *Fault) {
	places := w.at(f)
	switch f.Kind { //nolint:exhaustive // the others begin and end in the same way
	case Crash, CrashSameID:
		w.crash(places[0], f)
	case Replace:
		w.replace(places[0], f)
	case Stop, Suspend, Drift, Slow:
		w.disturb(places[0], f)
	case Split:
		if w.s.Table {
			w.j.note("", "", "%s", w.splitTable(f.Pick))
		} else {
			w.j.note("", "", "%s", w.split(f.Pick))
		}
	case Roll:
		w.j.note("", "", "%s", w.roll())
	case Merge:
		w.j.note("", "", "%s", w.merge(f.Pick))
	case Strategy:
		w.j.note("", "", "processes that start share by %s", w.otherStrategy(f.Pick))
		w.deploy(places)
	case Deploy:
		w.deploy(places)
	case ScaleOut:
		w.scaleOut()
	case ScaleIn:
		w.scaleIn(f.Pick)
	case LostConsumer:
		w.j.note("", "", "%s", w.loseConsumer(f.Pick))
	case Night:
		w.night(places, f)
	case DeleteStream:
		w.deleteStream()
	case LateThenCut:
		late := w.server.Inject(emulator.Rule{Client: places[0].client, Service: emulator.DynamoDB, Effect: emulator.DelayReply(f.Delay)})
		w.wait(w.s.Failover)
		cut := w.server.Inject(emulator.Rule{Client: places[0].client, Service: emulator.DynamoDB, Effect: emulator.Refuse()})
		late()
		w.wait(f.Lasts)
		cut()
	default:
		var ends []func()
		for _, p := range places {
			ends = append(ends, w.trouble(p, f)...)
		}
		w.wait(f.Lasts)
		for _, end := range ends {
			end()
		}
	}
}

// trouble begins a fault of network, services or user code at a place.
func (w *world) trouble(p *place, f *Fault) (ends []func()) {
	inject := func(service emulator.Service, part float64, effect emulator.Effect) {
		rule := emulator.Rule{Client: p.client, Service: service, Probability: part, Seed: f.Pick + uint64(p.n), Effect: effect}
		ends = append(ends, w.server.Inject(rule))
	}
	broken := emulator.Fail(http.StatusInternalServerError, "InternalServerError", "as the schedule says")
	switch f.Kind { //nolint:exhaustive // the others happen in ways of their own, see happen
	case CutTable, Outage:
		inject(emulator.DynamoDB, 0, emulator.Refuse())
	case HangTable:
		inject(emulator.DynamoDB, 0, emulator.Freeze())
	case CutStream:
		inject(w.s.service(), 0, emulator.Refuse())
		p.tap.severs()
	case HangStream:
		inject(w.s.service(), 0, emulator.Freeze())
		ends = append(ends, p.tap.hangs())
	case LostReplies:
		inject(emulator.DynamoDB, f.Part, emulator.DropReply())
	case LateReplies:
		inject(emulator.DynamoDB, f.Part, emulator.DelayReply(f.Delay))
	case CutReplies:
		inject(emulator.DynamoDB, f.Part, emulator.CutBody(40))
		inject(w.s.service(), f.Part, emulator.CutBody(40))
	case ThrottleTable:
		inject(emulator.DynamoDB, f.Part, emulator.Throttle())
	case ThrottleStream:
		inject(w.s.service(), f.Part, emulator.Throttle())
	case TableErrors:
		inject(emulator.DynamoDB, f.Part, broken)
	case StreamErrors:
		inject(w.s.service(), f.Part, broken)
	case CutEvents, SilentEvents, TakenEvents:
		rule := emulator.Rule{Client: p.client, Operation: "SubscribeToShard", Probability: f.Part, Seed: f.Pick + uint64(p.n), Effect: f.events()}
		ends = append(ends, w.server.Inject(rule))
	case LateRequests:
		ends = append(ends, p.tap.makeLate(f.Part, f.Delay))
	case StaleShards:
		ends = append(ends, p.tap.makeStale(w.s.listing()))
	case StaleScans:
		ends = append(ends, p.tap.makeStale("Scan"))
	case SlowUser, FailingUser, PanickingUser:
		ends = append(ends, p.user.begin(f))
	}
	return ends
}

// crash kills the process of a place and starts another one later.
func (w *world) crash(p *place, f *Fault) {
	if !p.take() {
		return
	}
	defer p.release()
	x := p.current()
	if x == nil {
		return
	}
	w.j.note(x.name, "", "CRASHES")
	x.crash()
	p.set(nil)
	w.wait(f.Lasts)
	id := ""
	if f.Kind == CrashSameID {
		id = x.id
	}
	w.start(p, id)
}

// replace starts a process with the id of one that stands still and later goes on.
func (w *world) replace(p *place, f *Fault) {
	if !p.take() {
		return
	}
	defer p.release()
	x := p.current()
	if x == nil {
		return
	}
	x.twin.Store(true)
	w.j.twins.Add(1)
	defer w.j.twins.Add(-1)
	w.j.note(x.name, "", "STANDS STILL and is replaced")
	x.m.pause(stopped)
	w.wait(f.Lasts / 2)
	w.start(p, x.id)
	y := p.current()
	y.twin.Store(true)
	w.wait(f.Lasts / 2)
	w.j.note(x.name, "", "GOES ON beside its successor")
	x.m.goOn()
	beside := time.Now()
	w.wait(f.Lasts)
	met := time.Since(beside) >= w.s.Failover
	// Whoever of them meets the other has ended. An orchestrator removes the old one and sees to the new one.
	select {
	case <-x.done:
	default:
		w.j.note(x.name, "", "CRASHES")
		x.crash()
	}
	// The other may learn of it from a row for as long as rows look alive. Mending waits for that. If they have both lived for as long as it
	// takes to be sure, it may have seen enough already, and act on that whenever it is not stopped any more.
	time.Sleep(2 * w.s.longest())
	select {
	case <-y.done:
		w.start(p, "")
	default:
		y.twin.Store(met)
	}
}

// disturb stops a process or its clock for a time.
func (w *world) disturb(p *place, f *Fault) {
	x := p.current()
	if x == nil {
		return
	}
	w.j.note(x.name, "", "%s", f.Kind)
	switch f.Kind { //nolint:exhaustive // called for these alone
	case Stop:
		x.m.pause(stopped)
	case Suspend:
		x.m.pause(suspended)
	case Slow:
		x.outOfBounds.Store(true)
		x.m.setRate(f.Rate)
	case Drift:
		x.m.setRate(f.Rate)
	}
	w.wait(f.Lasts)
	w.j.note(x.name, "", "%s is over", f.Kind)
	x.m.setRate(1)
	x.m.goOn()
}

// stopGracefully ends a process as an orchestrator does. The caller holds the place's busy.
func (w *world) stopGracefully(p *place) {
	x := p.current()
	if x == nil {
		return
	}
	w.j.note(x.name, "", "is asked to STOP")
	x.asked.Store(true)
	x.stop()
	// An orchestrator kills what does not end.
	kill := time.NewTimer(w.s.Grace + 6*time.Second)
	defer kill.Stop()
	select {
	case <-x.done:
	case <-kill.C:
		w.j.note(x.name, "", "is KILLED, since it has not stopped")
		x.crash()
	}
	p.set(nil)
}

// deploy replaces every process, one after another.
func (w *world) deploy(places []*place) {
	for _, p := range places {
		if w.running.Err() != nil {
			return
		}
		if !p.take() {
			continue
		}
		if p.current() != nil {
			w.stopGracefully(p)
			w.start(p, "")
		}
		p.release()
		w.wait(w.s.Failover / 2)
	}
}

// mostPlaces bounds a fleet.
const mostPlaces = 5

func (w *world) scaleOut() {
	for _, p := range w.at(&Fault{Worker: -1}) {
		if p.take() {
			if p.current() == nil {
				w.start(p, "")
				p.release()
				return
			}
			p.release()
		}
	}
	w.mu.Lock()
	full := len(w.places) >= mostPlaces
	w.mu.Unlock()
	if full || w.dark.Load() {
		return
	}
	p := w.addPlace()
	if p.take() {
		w.start(p, "")
		p.release()
	}
}

func (w *world) scaleIn(pick uint64) {
	var there []*place
	for _, p := range w.at(&Fault{Worker: -1}) {
		if p.current() != nil {
			there = append(there, p)
		}
	}
	if len(there) < 2 {
		return
	}
	p := there[pick%uint64(len(there))]
	if p.take() {
		defer p.release()
		w.stopGracefully(p)
	}
}

// night kills everybody and lets others start when what was put before has been trimmed.
func (w *world) night(places []*place, f *Fault) {
	w.dark.Store(true) // from now on nobody else starts anything
	for _, p := range places {
		p.busy <- struct{}{}
		if x := p.current(); x != nil {
			w.j.note(x.name, "", "CRASHES")
			x.crash()
			p.set(nil)
		}
	}
	time.Sleep(f.Lasts) // mending waits for it
	w.j.trim()
	w.dark.Store(false)
	for _, p := range places {
		w.start(p, "")
		p.release()
	}
}

func (w *world) deleteStream() {
	w.deleted.Store(true)
	w.j.note("", "", "the stream is DELETED")
	if _, err := w.kinesis.DeleteStream(w.root, &kinesis.DeleteStreamInput{StreamName: aws.String(stream), EnforceConsumerDeletion: aws.Bool(true)}); err != nil {
		w.j.violate("L0", "", "", "the simulator cannot delete the stream: %v", err)
	}
}

// restore ends every fault, completes a change of strategy, and fills the places that have no process, unless the fleet was made smaller: then it needs one.
func (w *world) restore() {
	w.mend()
	w.descent()
	w.faults.Wait()
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, x := range all {
		if !x.dead.Load() {
			x.m.setRate(1)
			x.m.goOn()
		}
	}
	for _, x := range w.alive() {
		if x.strategy == w.strategy() {
			continue
		}
		if x.place.take() { // a fleet that shares by two strategies does not come to rest
			w.stopGracefully(x.place)
			w.start(x.place, "")
			x.place.release()
		}
	}
	if len(w.alive()) > 0 {
		return
	}
	if p := w.at(&Fault{Worker: 0})[0]; p.take() {
		w.start(p, "")
		p.release()
	}
}

// alive are the processes that run.
func (w *world) alive() (alive []*process) {
	for _, p := range w.at(&Fault{Worker: -1}) {
		x := p.current()
		if x == nil {
			continue
		}
		select {
		case <-x.done:
		default:
			alive = append(alive, x)
		}
	}
	return alive
}

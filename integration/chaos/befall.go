//go:build unix

package main

import (
	"context"
	"sync"
	"syscall"
	"time"
)

// counting guards run.done and run.total.
var counting sync.Mutex

// befall does what a fault says, waits, and undoes it. Some have to wait for their turn first.
func (r *run) befall(ctx context.Context, number int, f fault) error {
	switch f.Kind {
	case killed:
		return r.alone(ctx, f, func() error { return r.kill(ctx, f) })
	case frozen:
		return r.alone(ctx, f, func() error { return r.freeze(ctx, f) })
	case restarted, replaced:
		return r.alone(ctx, f, func() error { return r.replace(ctx, f) })
	case partitioned, slow, late, narrow, reset, lossy:
		return r.during(f, func() error { return r.disturb(ctx, number, f) })
	case tableDown:
		return r.during(f, func() error { return r.restart(ctx, r.table, syscall.SIGKILL, f) })
	case streamDown:
		return r.source.exclusively(ctx, func(ctx context.Context) error {
			return r.during(f, func() error { return r.restart(ctx, r.stream, syscall.SIGTERM, f) })
		})
	case split, merge:
		return r.source.call(ctx, func(ctx context.Context) error {
			return r.during(f, func() error { return r.source.reshard(ctx, f) })
		})
	case jump:
		return r.during(f, func() error { return r.jump(ctx, f) })
	}
	return nil
}

// during runs do and counts it.
func (r *run) during(f fault, do func() error) error {
	began := time.Now()
	r.ledger.say("BEGINS  %v", f)
	err := do()
	r.ledger.say("IS OVER %v", f)
	counting.Lock()
	defer counting.Unlock()
	r.done[f.Kind]++
	r.total[f.Kind] += time.Since(began)
	return err
}

// alone runs do while nobody else replaces the process at that place. The schedule leaves room for that, but a stop takes as long as it
// takes.
func (r *run) alone(ctx context.Context, f fault, do func() error) error {
	select {
	case r.turns[f.Place] <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.turns[f.Place] }()
	return r.during(f, do)
}

func (r *run) kill(ctx context.Context, f fault) error {
	p := r.fleet.at(f.Place)
	r.fleet.befalls(f.Place, f.Kind, false)
	if err := p.kill(); err != nil {
		return err
	}
	if err := sleep(ctx, f.For); err != nil {
		return err
	}
	id := ""
	if f.SameID {
		id = p.id
	}
	return r.fleet.start(f.Place, id, 0)
}

func (r *run) freeze(ctx context.Context, f fault) error {
	p := r.fleet.at(f.Place)
	r.fleet.befalls(f.Place, f.Kind, false)
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	slept := sleep(ctx, f.For)
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	return slept
}

func (r *run) replace(ctx context.Context, f fault) error {
	old := r.fleet.at(f.Place)
	r.fleet.befalls(f.Place, f.Kind, false)
	if f.Early {
		if err := r.fleet.start(f.Place, "", 0); err != nil {
			return err
		}
		if err := sleep(ctx, f.For); err != nil {
			return err
		}
		return old.stop(ctx, r.ledger, false)
	}
	if err := old.stop(ctx, r.ledger, false); err != nil {
		return err
	}
	if err := sleep(ctx, f.For); err != nil {
		return err
	}
	id := ""
	if f.Kind == restarted {
		id = old.id
	}
	return r.fleet.start(f.Place, id, 0)
}

// disturb lets a fault befall the links of a place, or of all.
func (r *run) disturb(ctx context.Context, number int, f fault) error {
	var links []*link
	for place := range r.links {
		if f.Place != everywhere && f.Place != place {
			continue
		}
		r.fleet.befalls(place, f.Kind, true)
		defer r.fleet.lift(place, f.Kind)
		for i, of := range []service{table, stream} {
			for _, s := range f.Servers {
				if s == of {
					links = append(links, r.links[place][i])
				}
			}
		}
	}
	for _, l := range links {
		if err := l.begin(number, f); err != nil {
			return err
		}
	}
	slept := sleep(ctx, f.For)
	for _, l := range links {
		if err := l.end(ctx, number, f); err != nil {
			return err
		}
	}
	return slept
}

// restart takes a server down for a while.
func (r *run) restart(ctx context.Context, s *server, sig syscall.Signal, f fault) error {
	r.ledger.befall("", f.Kind)
	if err := s.stop(sig); err != nil {
		return err
	}
	if err := sleep(ctx, f.For); err != nil {
		return err
	}
	return s.start(ctx)
}

// jump sets the clock of the process at a place, and sets it right again if it is still there.
func (r *run) jump(ctx context.Context, f fault) error {
	p := r.fleet.at(f.Place)
	if err := p.set(f.Shift); err != nil {
		return err
	}
	slept := sleep(ctx, f.For)
	if err := p.set(0); err != nil {
		return err
	}
	return slept
}

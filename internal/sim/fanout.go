package sim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// Reading is which processes of a fleet read by enhanced fan-out. One schedule in five has some that do. Positions are the same in both
// modes, and so is everything that is judged.
type Reading int

// The ways in which a fleet reads.
const (
	ByPolling Reading = iota
	ByFanOut          // all of them
	ByBoth            // those of every other place by fan-out
	ToFanOut          // those that start in the second half of the schedule, at whose begin all are replaced
	ToPolling         // those that start in the first half
	readings
)

var readingNames = [readings]string{
	"by polling", "by fan-out", "by polling and fan-out side by side", "by polling, then by fan-out", "by fan-out, then by polling",
}

func (r Reading) String() string { return readingNames[r] }

// pushing chooses how the fleet reads, and adds what goes wrong with subscriptions. It has a source of its own: schedules of fleets that poll
// are what they were before there was anything else.
func (s *Schedule) pushing() {
	r := rand.New(rand.NewPCG(s.Seed, 0xfa40))
	if r.IntN(5) != 0 {
		return
	}
	s.Reading = ByFanOut
	if r.IntN(2) == 0 {
		s.Reading += Reading(r.IntN(int(readings - ByFanOut)))
	}
	// At AWS five minutes, in which most schedules would see none end.
	s.SubscriptionTTL = []time.Duration{8 * time.Second, 20 * time.Second, 5 * time.Minute}[r.IntN(3)]
	kinds := []Kind{CutEvents, SilentEvents, TakenEvents, LostConsumer}
	for range 1 + r.IntN(4) {
		s.Faults = append(s.Faults, s.draw(r, kinds[r.IntN(len(kinds))]))
	}
	if s.Reading == ToFanOut || s.Reading == ToPolling {
		s.Faults = append(s.Faults, Fault{Kind: Deploy, At: s.Lasts / 2, Worker: -1})
	}
}

// mode is how a process reads that starts at a place, so long after the schedule began.
func (s Schedule) mode(place int, after time.Duration) config.RetrievalMode {
	pushed := false
	switch s.Reading {
	case ByFanOut:
		pushed = true
	case ByBoth:
		pushed = place%2 == 1
	case ToFanOut:
		pushed = after >= s.Lasts/2
	case ToPolling:
		pushed = after < s.Lasts/2
	case ByPolling, readings:
	}
	if pushed {
		return config.FanOut
	}
	return config.Polling
}

// silenceTimeout is config.FanOutConfig.SilenceTimeout of every process. The emulator says something each second.
const silenceTimeout = 10 * time.Second

// slowest is how much later than by polling a shard may be read again once everything is mended: a subscription that has just become
// silent is given up first, and who has found the consumer in use, or the registration failing, waits for half a minute.
func (r Reading) slowest() time.Duration {
	if r == ByPolling {
		return 0
	}
	return silenceTimeout + 30*time.Second
}

// reads is how often in a second a reader at rest asks for records, at most.
func (s Schedule) reads() float64 {
	if s.Reading == ByFanOut { // in the other fleets with fan-out some may poll
		return 1 / s.SubscriptionTTL.Seconds()
	}
	return 1 / idleTime.Seconds()
}

// events are the fault of subscriptions that a kind stands for.
func (f *Fault) events() emulator.Effect {
	n := int(f.Pick % 4)
	switch {
	case f.Kind == CutEvents:
		return emulator.CutEventAfter(n)
	case f.Kind == SilentEvents:
		return emulator.SilenceAfter(n)
	case f.Pick%2 == 0:
		return emulator.Fail(http.StatusBadRequest, "ResourceInUseException", "as the schedule says")
	default:
		return emulator.ExceptionAfter(n, "ResourceInUseException", "as the schedule says")
	}
}

// loseConsumer removes the registration by which the fleet reads a stream.
func (w *world) loseConsumer(pick uint64) string {
	of := streamName(int(pick % uint64(w.s.Streams)))
	_, err := w.kinesis.DeregisterStreamConsumer(w.root, &kinesis.DeregisterStreamConsumerInput{
		StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/" + of), ConsumerName: aws.String(application),
	})
	if err != nil { // there is none yet, or none any more
		return "nothing: " + err.Error()
	}
	return "the consumer of " + of + " is removed"
}

// pushed is the body of an event stream as a process receives it: nothing comes while its machine stands still or its network hangs, and
// it breaks when the network does.
type pushed struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // the request's, which lasts as long as its answer
	sever  context.CancelCauseFunc
	by     *process
	forget func()
}

// subscribe sends a request whose answer is an event stream.
func (t *tap) subscribe(r *http.Request) (*http.Response, error) {
	ctx, sever := context.WithCancelCause(r.Context())
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		sever(err)
		return nil, err
	}
	b := &pushed{ReadCloser: resp.Body, ctx: ctx, sever: sever, by: t.process}
	b.forget = t.process.place.tap.opens(b)
	resp.Body = b
	return resp, nil
}

var errSevered error = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

func (b *pushed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, wait := range []func(context.Context) error{b.by.place.tap.flows, b.by.m.gate} {
		if halted := wait(b.ctx); halted != nil {
			return 0, halted
		}
	}
	if b.by.dead.Load() {
		return 0, errDead
	}
	return n, err
}

func (b *pushed) Close() error {
	b.forget()
	b.sever(errors.New("closed"))
	return b.ReadCloser.Close()
}

// opens notes an event stream until forget is called.
func (t *tapRules) opens(b *pushed) (forget func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams[b] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.streams, b)
	}
}

// severs breaks the event streams that are open.
func (t *tapRules) severs() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for b := range t.streams {
		b.sever(errSevered)
	}
}

// hangs lets nothing of event streams pass until end is called.
func (t *tapRules) hangs() (end func()) {
	over := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stalled = append(t.stalled, over)
	return func() { close(over) }
}

// flows returns when no fault of the place's network holds event streams back, or with ctx's error.
func (t *tapRules) flows(ctx context.Context) error {
	t.mu.Lock()
	stalled := t.stalled
	t.mu.Unlock()
	for _, over := range stalled {
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

package producer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/shardlease/shardlease/internal/loop"
)

const (
	linger      = 50 * time.Millisecond // how long a call that is not full waits for more records
	requests    = 4                     // calls under way at once
	lastWords   = 5 * time.Second       // how long calls under way may take once the context has ended
	firstPause  = 50 * time.Millisecond
	longPause   = 2 * time.Second
	reportEvery = 2 * time.Second
)

// API is the call of Kinesis that a [Producer] makes.
type API interface {
	PutRecords(context.Context, *kinesis.PutRecordsInput, ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error)
}

// Stats is how far a [Producer] got.
type Stats struct {
	Records int // taken by the service
	Bytes   int // of their data and keys
	Calls   int // PutRecords calls that were answered
	Retries int // records that were sent again
	Elapsed time.Duration
}

// Options say how a [Producer] works; the functions may be nil and are called by Run's goroutine.
type Options struct {
	Stream      string
	Ordered     bool          // records of one key are stored in the order in which they came, at the price of one record per key and call
	GiveUpAfter time.Duration // end when nothing was taken for so long though there was something to take; 0: never

	Accepted func(r Record, shard string) // the service has taken r
	Progress func(Stats)                  // every two seconds
	Waiting  func(err error)              // nothing is taken; every two seconds
}

// Producer puts records into one stream. A call whose answer was lost is sent again by the SDK, so that a record may be
// stored twice; nobody can tell from outside.
type Producer struct {
	api     API
	opts    Options
	lanes   lanes
	answers chan answer
	flying  int
	stats   Stats
	backoff loop.Backoff
	started time.Time
	good    time.Time // when the service last took a record, or had none to take
	pause   *loop.Timer
	paused  bool
	ending  bool  // run has returned: pause times the calls under way
	refused error // why the last call, or a record of it, was refused
	clock   *loop.Clock
}

type answer struct {
	batch []*lane
	out   *kinesis.PutRecordsOutput
	err   error
}

// New makes a producer for one [Producer.Run].
func New(api API, opts Options) *Producer {
	return &Producer{
		api: api, opts: opts,
		lanes:   lanes{ordered: opts.Ordered, byKey: map[string]*lane{}},
		answers: make(chan answer, requests),
		backoff: loop.Backoff{Base: firstPause, Max: longPause},
	}
}

// Run puts what comes from in until in is closed and everything is stored. It ends with an error if the service refuses
// the call itself (no such stream, no permission), if it takes nothing for Options.GiveUpAfter, or when ctx is done; the
// calls then under way are waited for. The Stats count what was stored in each case.
func (p *Producer) Run(ctx context.Context, in <-chan Record) (Stats, error) {
	p.clock = loop.ClockOf(ctx)
	p.started, p.good = p.clock.Now(), p.clock.Now()
	p.pause = p.clock.NewTimer(time.Hour)
	defer p.pause.Stop()
	// A call that is cut off half way leaves in doubt what was stored, so that calls do not end with ctx.
	calls, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	err := p.run(ctx, calls, in)
	p.ending = true
	p.pause.Reset(lastWords)
	for p.flying > 0 {
		select {
		case a := <-p.answers:
			_ = p.settle(a) // err is why we end; this one counts what was stored
		case <-p.pause.C:
			cut(context.Canceled)
		}
	}
	return p.snapshot(), err
}

func (p *Producer) run(ctx, calls context.Context, in <-chan Record) error {
	wait := p.clock.NewTimer(linger)
	defer wait.Stop()
	tick := p.clock.NewTimer(reportEvery)
	defer tick.Stop()
	lingered := false
	for in != nil || p.lanes.records > 0 {
		p.dispatch(calls, lingered || in == nil || p.lanes.full())
		if len(p.lanes.ready) == 0 && lingered {
			lingered = false
		}
		source := in
		if p.lanes.full() {
			source = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r, ok := <-source:
			if !ok {
				in = nil
				continue
			}
			if p.lanes.records == 0 {
				p.good = p.clock.Now()
			}
			if len(p.lanes.ready) == 0 {
				lingered = false
				wait.Reset(linger)
			}
			p.lanes.add(r)
		case <-wait.C:
			lingered = true
		case a := <-p.answers:
			lingered = true // what waited behind an answer has waited enough
			if err := p.settle(a); err != nil {
				return err
			}
		case <-p.pause.C:
			p.paused = false
		case <-tick.C:
			tick.Reset(reportEvery)
			p.report()
		}
	}
	return nil
}

// dispatch starts the calls that can be started: full ones always, and another one only if now and if nothing is under
// way. A partial call beside others would carry the few lanes whose turn it is, and so would the next one, and the one
// after: where keys are few, many small calls cost a server more than a few that wait for each other.
func (p *Producer) dispatch(ctx context.Context, now bool) {
	for p.flying < requests && !p.paused && len(p.lanes.ready) > 0 {
		batch, whole := p.lanes.take()
		if !whole && (!now || p.flying > 0) {
			return
		}
		p.lanes.sent(batch)
		p.flying++
		// Here, not in the goroutine: while that waits, more records join the lanes.
		in := &kinesis.PutRecordsInput{StreamName: aws.String(p.opts.Stream), Records: make([]types.PutRecordsRequestEntry, len(batch))}
		for i, b := range batch {
			in.Records[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String(b.records[0].Key), Data: b.records[0].Data}
		}
		go func() { // Run receives one answer for each call that it counts in flying
			out, err := p.send(ctx, in)
			p.answers <- answer{batch, out, err}
		}()
	}
}

func (p *Producer) send(ctx context.Context, in *kinesis.PutRecordsInput) (*kinesis.PutRecordsOutput, error) {
	out, err := p.api.PutRecords(ctx, in)
	if err == nil && len(out.Records) != len(in.Records) {
		return nil, fmt.Errorf("the answer is about %d records, %d were sent", len(out.Records), len(in.Records))
	}
	return out, err
}

// settle takes an answer in. The error ends the run.
func (p *Producer) settle(a answer) error {
	p.flying--
	now := p.clock.Now()
	if a.err != nil {
		p.lanes.settle(a.batch, func(int) bool { return false })
		if final(a.err) {
			return fmt.Errorf("put records into stream %s: %w", p.opts.Stream, a.err)
		}
		p.stats.Retries += len(a.batch)
		return p.rest(a.err, now)
	}
	p.stats.Calls++
	var refused error
	taken := 0
	for i, r := range a.out.Records {
		if r.ErrorCode != nil {
			refused = fmt.Errorf("%s: %s", aws.ToString(r.ErrorCode), aws.ToString(r.ErrorMessage))
			continue
		}
		taken++
		head := a.batch[i].records[0]
		p.stats.Records++
		p.stats.Bytes += head.size()
		if p.opts.Accepted != nil {
			p.opts.Accepted(head, aws.ToString(r.ShardId))
		}
	}
	p.lanes.settle(a.batch, func(i int) bool { return a.out.Records[i].ErrorCode == nil })
	if taken > 0 {
		p.good = now
	}
	if refused == nil {
		p.backoff.Reset()
		p.refused = nil
		return nil
	}
	p.stats.Retries += len(a.batch) - taken
	return p.rest(refused, now)
}

// rest pauses all sending after a refusal, and gives up when that has gone on for too long.
func (p *Producer) rest(why error, now time.Time) error {
	p.refused = why
	if d := now.Sub(p.good); p.opts.GiveUpAfter > 0 && d >= p.opts.GiveUpAfter {
		return fmt.Errorf("put records into stream %s: nothing was taken for %v: %w", p.opts.Stream, d.Round(time.Second), why)
	}
	if !p.ending {
		p.paused = true
		p.pause.Reset(p.backoff.Next())
	}
	return nil
}

func (p *Producer) report() {
	if p.refused != nil && p.clock.Since(p.good) >= reportEvery {
		if p.opts.Waiting != nil {
			p.opts.Waiting(p.refused)
		}
		return
	}
	if p.opts.Progress != nil {
		p.opts.Progress(p.snapshot())
	}
}

func (p *Producer) snapshot() Stats {
	s := p.stats
	s.Elapsed = p.clock.Since(p.started)
	return s
}

// final tells that the same call would fail again: the service understood it and refused it for another reason than
// load.
func final(err error) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	switch api.ErrorCode() {
	case "ProvisionedThroughputExceededException", "LimitExceededException", "ThrottlingException", "RequestLimitExceeded",
		"KMSThrottlingException", "InternalFailure", "ServiceUnavailable", "RequestTimeout", "RequestTimeoutException":
		return false
	}
	status, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && status.HTTPStatusCode() < http.StatusInternalServerError && status.HTTPStatusCode() != http.StatusTooManyRequests
}

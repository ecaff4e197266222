package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// deregisterAtOnce is how many consumers are being removed at a time; the service allows five calls a second for each stream.
const deregisterAtOnce = 10

// Deregister removes the consumers that this worker has read with, and those of the same name of the streams in more, with
// which others of the fleet may have read: of these only Stream, StreamARN and FanOutAPI mean anything. Nothing is done with
// FanOutConfig.ConsumerARN, and nothing to the streams in more once the worker has fallen back to polling. Workers of the
// application that still read with one lose their subscriptions and register it anew. A consumer that is not there, or going,
// is no error, nor is it that this worker may not look for one that it was denied to register; each other error names the stream, and the command
// that removes its consumer.
func (f *FanOut) Deregister(ctx context.Context, more ...Start) error {
	if f.cfg.ConsumerARN != "" {
		return nil
	}
	all := f.registrations(more)
	faults := make([]error, len(all))
	var group sync.WaitGroup
	turns := make(chan struct{}, deregisterAtOnce)
	for i, g := range all {
		turns <- struct{}{} // each ends with ctx
		group.Go(func() {
			defer func() { <-turns }()
			if err := g.deregister(ctx); err != nil {
				faults[i] = g.left(err)
			}
		})
	}
	group.Wait()
	return errors.Join(faults...)
}

// Removals are the commands that remove what [FanOut.Deregister] would.
func (f *FanOut) Removals(more ...Start) (commands []string) {
	for _, g := range f.registrations(more) {
		commands = append(commands, g.removal())
	}
	slices.Sort(commands)
	return commands
}

// left says what becomes of a consumer that could not be removed: nothing, if there is none as far as this worker can know.
func (g *registration) left(err error) error {
	switch stood := g.stood(); {
	case stood == absent && faultOf(err) == denied:
		return nil
	case stood == present:
		return fmt.Errorf("%w; consumer %s is paid for until it is removed, with: %s", err, g.fanout.described(g.stream), g.removal())
	}
	return fmt.Errorf("%w; a consumer of this application may still be registered with stream %q, and is paid for until it is removed, with: %s", err, g.stream, g.removal())
}

// removal is the command that removes the consumer.
func (g *registration) removal() string {
	return fmt.Sprintf("shardlease consumers deregister --stream %s %s", g.said, g.fanout.cfg.ConsumerName)
}

// registrations are those of all streams that this worker has opened and, unless it has fallen back to polling, of more.
func (f *FanOut) registrations(more []Start) (all []*registration) {
	if !f.polls.Load() {
		for _, s := range more {
			f.registration(s)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.streams {
		all = append(all, g)
	}
	return all
}

// deregister removes the consumer, if there is one.
func (g *registration) deregister(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return fmt.Errorf("deregister the consumer of stream %q: %w", g.said, context.Cause(ctx))
	}
	arn, in := g.known(), &kinesis.DeregisterStreamConsumerInput{}
	switch {
	case arn != "":
		g.forget(arn)
		in.ConsumerARN = &arn
	case g.fanout.polls.Load(): // what is denied to this worker was not registered by it
		return nil
	default:
		err := g.name(ctx)
		if _, gone := errors.AsType[*noStreamError](err); gone {
			return nil
		}
		if err != nil {
			return err
		}
		in.StreamARN, in.ConsumerName = &g.streamARN, &g.fanout.cfg.ConsumerName
	}
	err := g.call(ctx, "deregister the consumer of", func(ctx context.Context) error {
		_, err := g.api.DeregisterStreamConsumer(ctx, in, ourRetries...)
		return err
	})
	if kind := faultOf(err); err == nil || kind == notFound || kind == inUse || arn == "" && unknownOperation(err) {
		return nil
	}
	return err
}

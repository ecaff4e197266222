package kinesis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// How many consumers a stream may have, and how many of them at a time may be CREATING.
const (
	maxConsumers         = 20
	maxConsumersOnDemand = 50
	maxConsumersCreating = 5
)

type consumer struct {
	stream        *stream
	name, arn     string
	created       time.Time
	readyAt       time.Time // ACTIVE from then on
	deleted       bool
	goneAt        time.Time // of a deleted one
	tags          map[string]string
	subscriptions map[int]*subscription // by shard; the latest one, also if it has ended
}

func (c *consumer) status(now time.Time) string {
	switch {
	case c.deleted:
		return deleting
	case now.Before(c.readyAt):
		return creating
	}
	return active
}

// sweepConsumers forgets the consumers whose DELETING is over.
func (k *Service) sweepConsumers(now time.Time, s *stream) {
	maps.DeleteFunc(s.consumers, func(_ string, c *consumer) bool { return c.deleted && !now.Before(c.goneAt) })
}

type consumerShape struct {
	ConsumerName, ConsumerARN, ConsumerStatus string
	ConsumerCreationTimestamp                 wire.Time
	StreamARN                                 string `json:",omitempty"` // in descriptions only
}

func (c *consumer) shape(now time.Time) consumerShape {
	return consumerShape{ConsumerName: c.name, ConsumerARN: c.arn, ConsumerStatus: c.status(now), ConsumerCreationTimestamp: wire.Time{Time: c.created}}
}

type registerConsumerInput struct {
	StreamARN, StreamId, ConsumerName string
	Tags                              map[string]string
}

type registerConsumerOutput struct{ Consumer consumerShape }

func (k *Service) registerConsumer(now time.Time, in *registerConsumerInput) (any, *wire.Error) {
	if err := k.rate("RegisterStreamConsumer", "", 5); err != nil {
		return nil, err
	}
	if !validName.MatchString(in.ConsumerName) {
		return nil, malformed("ConsumerName %q, want 1 to 128 of the characters a-zA-Z0-9_.-", in.ConsumerName)
	}
	s, err := k.findReady(now, streamRef{StreamARN: in.StreamARN, StreamId: in.StreamId})
	if err != nil {
		return nil, err
	}
	k.sweepConsumers(now, s)
	if s.consumers[in.ConsumerName] != nil {
		return nil, inUse("Consumer %s of stream %s under account %s already exists.", in.ConsumerName, s.name, Account)
	}
	if err := s.roomForConsumer(now); err != nil {
		return nil, err
	}
	c := &consumer{
		stream: s, name: in.ConsumerName, created: now, readyAt: now.Add(k.cfg.ControlDelay),
		arn:  fmt.Sprintf("%s/consumer/%s:%d", s.arn, in.ConsumerName, now.Unix()),
		tags: map[string]string{}, subscriptions: map[int]*subscription{},
	}
	if err := setTags(c.tags, in.Tags); err != nil {
		return nil, err
	}
	s.consumers[c.name] = c
	return registerConsumerOutput{c.shape(now)}, nil
}

func (s *stream) roomForConsumer(now time.Time) *wire.Error {
	most := maxConsumers
	if s.mode == onDemand {
		most = maxConsumersOnDemand
	}
	if len(s.consumers) >= most {
		return wire.Errorf("LimitExceededException", "stream %s has %d consumers, want at most %d", s.name, len(s.consumers), most)
	}
	var young int
	for _, c := range s.consumers {
		if c.status(now) == creating {
			young++
		}
	}
	if young >= maxConsumersCreating {
		return wire.Errorf("LimitExceededException", "%d consumers of stream %s are CREATING, want at most %d", young, s.name, maxConsumersCreating)
	}
	return nil
}

// consumerRef is how requests name a consumer: by its ARN, or by its name and its stream.
type consumerRef struct {
	ConsumerARN, StreamARN, StreamId, ConsumerName string
}

func (k *Service) findConsumer(now time.Time, ref consumerRef) (*consumer, *wire.Error) {
	name := ref.ConsumerName
	in := streamRef{StreamARN: ref.StreamARN, StreamId: ref.StreamId}
	if ref.ConsumerARN != "" {
		var rest string
		var ok bool
		if in.StreamARN, rest, ok = strings.Cut(ref.ConsumerARN, "/consumer/"); !ok {
			return nil, invalid("ConsumerARN %q is not the ARN of a consumer", ref.ConsumerARN)
		}
		if ref.StreamARN != "" && ref.StreamARN != in.StreamARN {
			return nil, invalid("ConsumerARN %q and StreamARN %q name different streams", ref.ConsumerARN, ref.StreamARN)
		}
		fromARN, _, _ := strings.Cut(rest, ":")
		if name != "" && name != fromARN {
			return nil, invalid("ConsumerARN %q and ConsumerName %q name different consumers", ref.ConsumerARN, name)
		}
		name = fromARN
	}
	if name == "" {
		return nil, invalid("ConsumerARN, or StreamARN and ConsumerName, are needed")
	}
	s, err := k.findReady(now, in)
	if err != nil {
		return nil, err
	}
	k.sweepConsumers(now, s)
	c := s.consumers[name]
	if c == nil || ref.ConsumerARN != "" && c.arn != ref.ConsumerARN {
		return nil, notFound("Consumer %s of stream %s under account %s not found.", name, s.name, Account)
	}
	return c, nil
}

type describeConsumerOutput struct{ ConsumerDescription consumerShape }

func (k *Service) describeConsumer(now time.Time, in *consumerRef) (any, *wire.Error) {
	if err := k.rate("DescribeStreamConsumer", "", 20); err != nil {
		return nil, err
	}
	c, err := k.findConsumer(now, *in)
	if err != nil {
		return nil, err
	}
	shape := c.shape(now)
	shape.StreamARN = c.stream.arn
	return describeConsumerOutput{shape}, nil
}

func (k *Service) deregisterConsumer(now time.Time, in *consumerRef) (any, *wire.Error) {
	if err := k.rate("DeregisterStreamConsumer", "", 5); err != nil {
		return nil, err
	}
	c, err := k.findConsumer(now, *in)
	if err != nil {
		return nil, err
	}
	if c.deleted {
		return nil, inUse("Consumer %s is DELETING already", c.arn)
	}
	c.deleted, c.goneAt = true, now.Add(k.cfg.ControlDelay)
	k.sweepConsumers(now, c.stream)
	for index := range c.subscriptions {
		c.stream.shards[index].signal()
	}
	return nil, nil
}

type listConsumersInput struct {
	StreamARN, StreamId, NextToken string
	MaxResults                     *int
	StreamCreationTimestamp        *wire.Time
}

type listConsumersOutput struct {
	Consumers []consumerShape
	NextToken string `json:",omitempty"`
}

func (k *Service) listConsumers(now time.Time, in *listConsumersInput) (any, *wire.Error) {
	if err := k.rate("ListStreamConsumers", "", 5); err != nil {
		return nil, err
	}
	limit, err := within("MaxResults", in.MaxResults, 100, 10_000)
	if err != nil {
		return nil, err
	}
	s, err := k.find(now, streamRef{StreamARN: in.StreamARN, StreamId: in.StreamId})
	if err != nil {
		return nil, err
	}
	if t := in.StreamCreationTimestamp; t != nil && t.UnixMilli() != s.created.UnixMilli() {
		return nil, notFound("Stream %s created at %s not found: this one was created at %s", s.name, t.UTC(), s.created.UTC())
	}
	k.sweepConsumers(now, s)
	out := listConsumersOutput{Consumers: []consumerShape{}}
	for _, name := range slices.Sorted(maps.Keys(s.consumers)) {
		if name <= in.NextToken { // the last name, which needs no disguise
			continue
		}
		if len(out.Consumers) == limit {
			out.NextToken = out.Consumers[limit-1].ConsumerName
			break
		}
		out.Consumers = append(out.Consumers, s.consumers[name].shape(now))
	}
	return out, nil
}

package kinesis

import (
	"maps"
	"slices"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

const (
	maxShards        = 10_000
	onDemandShards   = 4
	provisioned      = "PROVISIONED"
	onDemand         = "ON_DEMAND"
	accountShards    = 20_000
	accountOnDemands = 50
)

type createStreamInput struct {
	StreamName        string
	ShardCount        *int
	StreamModeDetails *modeShape
	Tags              map[string]string
}

func (k *Service) createStream(now time.Time, in *createStreamInput) (any, *wire.Error) {
	if err := k.rate("CreateStream", "", 5); err != nil {
		return nil, err
	}
	mode, shards := provisioned, onDemandShards
	if in.StreamModeDetails != nil {
		mode = in.StreamModeDetails.StreamMode
	}
	switch mode {
	case provisioned:
		if in.ShardCount == nil {
			return nil, invalid("ShardCount is needed to create provisioned stream %s", in.StreamName)
		}
		shards = *in.ShardCount
	case onDemand:
		if in.ShardCount != nil {
			return nil, invalid("ShardCount is %d, want none for on-demand stream %s", *in.ShardCount, in.StreamName)
		}
	default:
		return nil, malformed("StreamMode is %q, want %s or %s", mode, provisioned, onDemand)
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	s, err := k.add(now, in.StreamName, mode, shards)
	if err != nil {
		return nil, err
	}
	maps.Copy(s.tags, in.Tags)
	k.begin(now, s, creating)
	return nil, nil
}

func (k *Service) add(now time.Time, name, mode string, shards int) (*stream, *wire.Error) {
	if !validName.MatchString(name) {
		return nil, malformed("StreamName %q, want 1 to 128 of the characters a-zA-Z0-9_.-", name)
	}
	if shards < 1 || shards > maxShards {
		return nil, malformed("ShardCount is %d, want 1 to %d", shards, maxShards)
	}
	if k.byName(now, name) != nil {
		return nil, inUse("Stream %s under account %s already exists.", name, Account)
	}
	s := newStream(now, name, mode, shards)
	k.streams[name] = s
	return s, nil
}

// CreateStream adds a provisioned stream that is ACTIVE at once.
func (k *Service) CreateStream(name string, shards int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.add(time.Now(), name, provisioned, shards); err != nil {
		return err
	}
	return nil
}

type deleteStreamInput struct {
	streamRef
	EnforceConsumerDeletion bool
}

func (k *Service) deleteStream(now time.Time, in *deleteStreamInput) (any, *wire.Error) {
	if err := k.rate("DeleteStream", "", 5); err != nil {
		return nil, err
	}
	s, err := k.find(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	if s.busy == deleting {
		return nil, inUse("Stream %s under account %s is DELETING already", s.name, Account)
	}
	if k.sweepConsumers(now, s); len(s.consumers) > 0 && !in.EnforceConsumerDeletion {
		return nil, inUse("Stream %s has %d registered consumers and EnforceConsumerDeletion is not set", s.name, len(s.consumers))
	}
	k.begin(now, s, deleting)
	return nil, nil
}

type listStreamsInput struct {
	ExclusiveStartStreamName, NextToken string
	Limit                               *int
}

type streamSummary struct {
	StreamName, StreamARN, StreamStatus string
	StreamModeDetails                   modeShape
	StreamCreationTimestamp             wire.Time
}

type listStreamsOutput struct {
	StreamNames     []string
	HasMoreStreams  bool
	NextToken       string `json:",omitempty"`
	StreamSummaries []streamSummary
}

func (k *Service) listStreams(now time.Time, in *listStreamsInput) (any, *wire.Error) {
	if err := k.rate("ListStreams", "", 5); err != nil {
		return nil, err
	}
	limit, err := within("Limit", in.Limit, 100, 10_000)
	if err != nil {
		return nil, err
	}
	from := in.ExclusiveStartStreamName
	if in.NextToken != "" {
		if from != "" {
			return nil, invalid("NextToken and ExclusiveStartStreamName cannot be given together")
		}
		from = in.NextToken // the last name, which needs no disguise
	}
	out := listStreamsOutput{StreamNames: []string{}, StreamSummaries: []streamSummary{}}
	for _, name := range slices.Sorted(maps.Keys(k.streams)) {
		s := k.byName(now, name)
		if s == nil || name <= from {
			continue
		}
		if len(out.StreamNames) == limit {
			out.HasMoreStreams, out.NextToken = true, out.StreamNames[limit-1]
			break
		}
		out.StreamNames = append(out.StreamNames, name)
		out.StreamSummaries = append(out.StreamSummaries, streamSummary{
			name, s.arn, s.status(), modeShape{s.mode}, wire.Time{Time: s.created},
		})
	}
	return out, nil
}

type describeStreamInput struct {
	streamRef
	Limit                 *int
	ExclusiveStartShardId string
}

type describeStreamOutput struct {
	StreamDescription struct {
		streamShape
		Shards        []shardShape
		HasMoreShards bool
	}
}

func (k *Service) describeStream(now time.Time, in *describeStreamInput) (any, *wire.Error) {
	if err := k.rate("DescribeStream", "", 10); err != nil {
		return nil, err
	}
	s, err := k.find(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	limit, err := within("Limit", in.Limit, 100, 10_000)
	if err != nil {
		return nil, err
	}
	limit = min(limit, 100) // the service gives no more at once, whatever is asked
	var out describeStreamOutput
	d := &out.StreamDescription
	d.streamShape, d.Shards = s.shape(), []shardShape{}
	if s.busy == creating {
		return out, nil
	}
	for _, x := range s.shards {
		if !s.keeps(now, x) || x.id <= in.ExclusiveStartShardId {
			continue
		}
		if len(d.Shards) == limit {
			d.HasMoreShards = true
			break
		}
		d.Shards = append(d.Shards, x.shape())
	}
	return out, nil
}

type describeStreamSummaryOutput struct {
	StreamDescriptionSummary struct {
		streamShape
		StreamId       string
		OpenShardCount int
		ConsumerCount  int
	}
}

func (k *Service) describeStreamSummary(now time.Time, in *streamRef) (any, *wire.Error) {
	if err := k.rate("DescribeStreamSummary", "", 20); err != nil {
		return nil, err
	}
	s, err := k.find(now, *in)
	if err != nil {
		return nil, err
	}
	k.sweepConsumers(now, s)
	var out describeStreamSummaryOutput
	d := &out.StreamDescriptionSummary
	d.streamShape, d.StreamId, d.OpenShardCount, d.ConsumerCount = s.shape(), s.id, len(s.open), len(s.consumers)
	if s.busy == creating {
		d.OpenShardCount = 0
	}
	return out, nil
}

type describeLimitsOutput struct {
	ShardLimit, OpenShardCount, OnDemandStreamCount, OnDemandStreamCountLimit int
}

func (k *Service) describeLimits(now time.Time, _ *struct{}) (any, *wire.Error) {
	if err := k.rate("DescribeLimits", "", 1); err != nil {
		return nil, err
	}
	out := describeLimitsOutput{ShardLimit: accountShards, OnDemandStreamCountLimit: accountOnDemands}
	for _, s := range k.streams {
		if !k.settle(now, s) {
			continue
		}
		if s.mode == onDemand {
			out.OnDemandStreamCount++
		} else {
			out.OpenShardCount += len(s.open)
		}
	}
	return out, nil
}

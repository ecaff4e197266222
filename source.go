package shardlease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval"
)

// Source is a kind of stream that is read in place of one of Kinesis. dynamostreams.New makes the only one there is, for the streams
// of DynamoDB tables.
type Source = retrieval.LineageAPI

// WithSource makes the worker read from s instead of from Kinesis:
//
//	shardlease.New(cfg, cloud, factory, shardlease.WithSource(dynamostreams.New(dynamodbstreams.NewFromConfig(cloud))))
//
// cfg.StreamARN names the stream. What is different there is told in docs/dynamodb-streams.md. Workers of one process may share s.
func WithSource(s Source) Option { return func(o *options) { o.source, o.sourced = s, true } }

// foreignShard is the source of a shard of another stream: it has nothing but the reason, which ends the worker. (An error of Open is
// tried again.)
type foreignShard struct{ err error }

// Next implements processor.RecordSource.
func (s foreignShard) Next(context.Context) (processor.Batch, error) { return processor.Batch{}, s.err }

// Close implements processor.RecordSource.
func (foreignShard) Close() {}

// validateSource checks a worker that reads from a source.
func (o options) validateSource(cfg config.Config) error {
	faults := []error{cfg.ValidateTableStream()}
	if o.source == nil || isNilPointer(o.source) {
		faults = append(faults, fmt.Errorf("WithSource was given %s, want what dynamostreams.New returns", nilOf(o.source)))
	} else if c, ok := o.source.(interface{ Check() error }); ok && c.Check() != nil {
		faults = append(faults, fmt.Errorf("WithSource: %w", c.Check()))
	} else if parts, region := strings.Split(cfg.StreamARN, ":"), o.source.Region(); region != "" && len(parts) > 3 && parts[2] == "dynamodb" && parts[3] != region {
		faults = append(faults, fmt.Errorf("StreamARN is %q, want region %s, which the client of WithSource has", cfg.StreamARN, region))
	}
	for _, other := range []struct {
		option string
		given  bool
	}{{"WithKinesis", o.kinesis != nil}, {"WithStreamTracker", o.tracked}, {"WithStreamClient", len(o.clients) > 0}} {
		if other.given {
			faults = append(faults, fmt.Errorf("%s was given beside WithSource, want one of them: a source reads one stream, with the client that it was made with", other.option))
		}
	}
	return errors.Join(faults...)
}

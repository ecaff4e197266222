package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RetrievalMode is how records are fetched.
type RetrievalMode string

// The modes of RetrievalConfig.Mode. docs/fan-out.md says when to choose which.
const (
	// Polling asks for records with GetRecords. (KCL: PollingConfig)
	Polling RetrievalMode = "Polling"
	// FanOut has records pushed with SubscribeToShard, to a consumer that is registered with the stream. (KCL: FanOutConfig)
	FanOut RetrievalMode = "FanOut"
)

// FanOutConfig is about enhanced fan-out.
type FanOutConfig struct {
	// ConsumerName is the name under which the application is registered with the stream; the first worker registers it if it
	// is not there. Two applications must not share one: they would take each other's subscriptions away. Default: ApplicationName; 1 to 128 characters
	// of a-z, A-Z, 0-9, '_', '.', '-'. (KCL: consumerName)
	ConsumerName string

	// ConsumerARN is a consumer that is registered already, as
	// arn:aws:kinesis:REGION:ACCOUNT:stream/NAME/consumer/CONSUMER:TIME: with it no worker registers or removes one, and the permissions for
	// that are not needed. It must be a consumer of StreamARN, or of a stream called StreamName if no StreamARN is set: that stream in full, with
	// its account and region, is then the one that is read, as if StreamARN named it; the client for Kinesis must be of that region. Not for several streams. Default: none. (KCL: consumerArn)
	ConsumerARN string

	// Deregister has the worker remove the registration when it stops and no other worker owns a lease of the application. A registered consumer is paid
	// for by the hour whether it is used or not. Leave it off where fleets are scaled down to nothing for a short time only: to register takes some seconds.
	// Default false: it stays until somebody removes it (shardlease consumers deregister).
	Deregister bool

	// FallBackToPolling has the worker read all of its streams by polling, with one warning, if fan-out is denied to it, the server does not know
	// it, or a stream has all the consumers that it can have (20; to see that, the worker needs the permission for ListStreamConsumers).
	// Default false: it tries again for ever, and says so.
	FallBackToPolling bool

	// SilenceTimeout is how long a subscription may bring nothing, not even the empty events that come of a silent shard,
	// before it is given up for a new one. It bounds what is learned: when some events have come, 4 times the longest pause
	// between them (but at least 5s) is enough. Default 35s; 5s to 5min.
	SilenceTimeout time.Duration
}

func (f FanOutConfig) check(faults *faults, streamName, streamARN string) {
	const p = "Retrieval.FanOut."
	if f.ConsumerName != "" {
		faults.name(p+"ConsumerName", f.ConsumerName, 1, 128)
	}
	if f.ConsumerARN != "" {
		stream, consumer, ok := strings.Cut(f.ConsumerARN, "/consumer/")
		_, created, dated := strings.Cut(consumer, ":")
		name := consumerOfARN(f.ConsumerARN)
		of, err := parseARN(stream)
		_, bad := strconv.ParseUint(created, 10, 63)
		// Records of another stream would be checkpointed by numbers that mean nothing in the one whose shards are leased.
		wanted, unnamed := parseARN(streamARN)
		misplaced, elsewhere := errors.AsType[misplacedError](err)
		switch {
		case elsewhere:
			faults.add(p+"ConsumerARN", strconv.Quote(f.ConsumerARN), misplaced.Error())
		case !ok || !dated || err != nil || bad != nil || name == "" || !isName(name):
			faults.add(p+"ConsumerARN", strconv.Quote(f.ConsumerARN), "arn:aws:kinesis:REGION:ACCOUNT:stream/NAME/consumer/CONSUMER:TIME")
		case unnamed == nil && of != wanted:
			faults.add(p+"ConsumerARN", strconv.Quote(f.ConsumerARN), fmt.Sprintf("a consumer of the stream that StreamARN names: %s/consumer/CONSUMER:TIME", wanted))
		case streamARN == "" && streamName != "" && of.name != streamName:
			faults.add(p+"ConsumerARN", strconv.Quote(f.ConsumerARN), fmt.Sprintf("a consumer of stream %q, which StreamName names", streamName))
		}
		if f.ConsumerName != "" && ok && f.ConsumerName != name {
			faults.add(p+"ConsumerName", strconv.Quote(f.ConsumerName), fmt.Sprintf("%q as in ConsumerARN, or no name", name))
		}
		if f.Deregister {
			faults.add(p+"Deregister", "true", "false with ConsumerARN: the worker removes only what it has registered")
		}
	}
	whenSet(faults, p+"SilenceTimeout", f.SilenceTimeout, 5*time.Second, 5*time.Minute)
}

// streamOfConsumer is the ARN of the stream in a consumer's ARN, "" if there is none.
func streamOfConsumer(arn string) string {
	stream, _, _ := strings.Cut(arn, "/consumer/")
	parsed, err := parseARN(stream)
	if err != nil {
		return ""
	}
	return parsed.String()
}

// consumerOfARN is the name in a consumer's ARN, "" if there is none.
func consumerOfARN(arn string) string {
	_, consumer, _ := strings.Cut(arn, "/consumer/")
	name, _, _ := strings.Cut(consumer, ":")
	return name
}

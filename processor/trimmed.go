package processor

import (
	"fmt"
	"time"

	"github.com/shardlease/shardlease/config"
)

// TrimmedError ends a worker whose RetrievalConfig.OnTrimmed is FailRun: a shard is to be read on from a position that the stream
// does not keep any more. Nothing was skipped, and the checkpoint stays where it is. errors.As finds it in what Run returns. A
// RecordSource returns it from Next.
type TrimmedError struct{ config.TrimmedEvent }

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("go on from %s in shard %s of stream %q: the stream does not keep it any more, and records after it may be lost; %s; "+
		"Retrieval.OnTrimmed is %s, so nothing was skipped and the checkpoint stays: to read on without them, start with %s",
		e.Position, e.ShardID, e.Stream, e.rest(), config.FailRun, config.ContinueReading)
}

// rest says what there is instead.
func (e *TrimmedError) rest() string {
	switch {
	case e.Gone:
		return "the whole shard is gone"
	case e.First == "":
		return "the shard has ended, and no record of it is left"
	case e.FirstArrival.IsZero():
		return "the first record that there is is " + e.First
	}
	return fmt.Sprintf("the first record that there is is %s, which arrived at %s", e.First, e.FirstArrival.UTC().Format(time.RFC3339Nano))
}

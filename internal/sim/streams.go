package sim

import (
	"fmt"
	"strconv"

	"github.com/shardlease/shardlease/config"
)

// A schedule of several streams is one of a worker of several streams: their leases have other keys, and the judge looks at each
// stream by itself. Their epochs are configured, so that the keys are known beforehand.

const epoch = 7

// streamName is the name of a schedule's i-th stream.
func streamName(i int) string {
	if i == 0 {
		return stream
	}
	return stream + strconv.Itoa(i)
}

// keyPrefix tells the records of a schedule's i-th stream from those of the others.
func keyPrefix(i int) string {
	if i == 0 {
		return ""
	}
	return streamName(i) + " "
}

// streams are the configurations of several streams.
func (s Schedule) streams() (all []config.StreamConfig) {
	for i := range s.Streams {
		all = append(all, config.StreamConfig{StreamName: streamName(i), AccountID: "000000000000", CreationEpoch: epoch})
	}
	return all
}

// prefixes are what the keys of each stream's leases begin with: nothing if there is one stream. The leases of a table's stream, which have
// no hash keys, are not looked at so.
func (s Schedule) prefixes() (all []string) {
	if s.Table {
		return nil
	}
	if s.Streams == 1 {
		return []string{""}
	}
	for i := range s.Streams {
		all = append(all, fmt.Sprintf("000000000000:%s:%d:", streamName(i), epoch))
	}
	return all
}

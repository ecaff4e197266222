package config

import (
	"fmt"
	"strconv"
	"strings"
)

const tableStreamForm = "arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE/stream/LABEL, the table's LatestStreamArn"

// tableOfStream is the table in the ARN of a table's stream.
func tableOfStream(arn string) (table string, ok bool) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") || parts[2] != "dynamodb" || parts[3] == "" || !isAccount(parts[4]) {
		return "", false
	}
	path := strings.Split(parts[5], "/")
	if len(path) != 4 || path[0] != "table" || path[2] != "stream" || path[3] == "" || len(path[1]) < 3 || len(path[1]) > 255 || !isName(path[1]) {
		return "", false
	}
	return path[1], true
}

// checkTableStream checks what a worker is told that reads the stream of a DynamoDB table.
func (c Config) checkTableStream(f *faults) {
	table, ok := tableOfStream(c.StreamARN)
	switch {
	case !ok:
		f.add("StreamARN", strconv.Quote(c.StreamARN), tableStreamForm)
	case c.StreamName != "" && c.StreamName != table:
		f.add("StreamName", strconv.Quote(c.StreamName), fmt.Sprintf("%q, the table in StreamARN, or no name", table))
	}
	if c.Streams != nil {
		f.add("Streams", fmt.Sprintf("%d streams", len(c.Streams)), "none: a worker reads one table's stream, which StreamARN names")
	}
	if n := c.FormerStreams; n.Deletion != "" && n.Deletion != KeepLeases || len(n.Listed) > 0 {
		f.add("FormerStreams", "set", "nothing for the stream of a table")
	}
	if _, timed := c.InitialPosition.Timestamp(); timed {
		f.add("InitialPosition", c.InitialPosition.String(), "TRIM_HORIZON or LATEST: DynamoDB Streams cannot be read from a time on")
	}
	if c.Retrieval.Mode == FanOut {
		f.add("Retrieval.Mode", strconv.Quote(string(FanOut)), fmt.Sprintf("%q: DynamoDB Streams have no enhanced fan-out", Polling))
	}
}

package config

import (
	"fmt"
	"strconv"
	"strings"
)

const tableStreamForm = "arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE/stream/LABEL, the table's LatestStreamArn"

// tableStreamWanted is what the ARN of a table's stream must be that cannot be read: the form or, if it has that, what is wrong within it.
func tableStreamWanted(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") || parts[2] != "dynamodb" {
		return tableStreamForm
	}
	path := strings.Split(parts[5], "/")
	switch {
	case len(path) != 4 || path[0] != "table" || path[2] != "stream":
		return tableStreamForm
	case parts[3] == "" || !isName(parts[3]):
		return "a REGION such as us-east-1 in " + tableStreamForm
	case !isAccount(parts[4]):
		return "an account of 12 digits in " + tableStreamForm
	case len(path[1]) < 3 || len(path[1]) > 255 || !isName(path[1]):
		return "a TABLE of 3 to 255 characters of a-z, A-Z, 0-9, '_', '.', '-' in " + tableStreamForm
	}
	return "a LABEL such as 2026-01-02T03:04:05.678 in " + tableStreamForm
}

// tableStreamARN is what arn:PARTITION:dynamodb:REGION:ACCOUNT:table/TABLE/stream/LABEL says.
type tableStreamARN struct{ partition, region, table string }

// parseTableStream reads the ARN of a table's stream.
func parseTableStream(arn string) (a tableStreamARN, ok bool) {
	parts := strings.SplitN(arn, ":", 6) // the label has colons, too
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") || parts[2] != "dynamodb" || parts[3] == "" || !isName(parts[3]) || !isAccount(parts[4]) {
		return tableStreamARN{}, false
	}
	path := strings.Split(parts[5], "/")
	if len(path) != 4 || path[0] != "table" || path[2] != "stream" || len(path[1]) < 3 || len(path[1]) > 255 || !isName(path[1]) ||
		path[3] == "" || !isName(strings.ReplaceAll(path[3], ":", "")) {
		return tableStreamARN{}, false
	}
	return tableStreamARN{parts[1], parts[3], path[1]}, true
}

// checkTableStream checks what a worker is told that reads the stream of a DynamoDB table.
func (c Config) checkTableStream(f *faults) {
	arn, ok := parseTableStream(c.StreamARN)
	if !ok {
		f.add("StreamARN", strconv.Quote(c.StreamARN), tableStreamWanted(c.StreamARN))
	} else {
		c.checkTable(f, arn)
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

// checkTable checks what stands beside the ARN of the table's stream.
func (c Config) checkTable(f *faults, arn tableStreamARN) {
	if p := partitionOf(arn.region, arn.partition); p != arn.partition {
		f.add("StreamARN", strconv.Quote(c.StreamARN), misplacedError{p, "dynamodb", arn.region}.Error())
	}
	if c.StreamName != "" && c.StreamName != arn.table {
		f.add("StreamName", strconv.Quote(c.StreamName), fmt.Sprintf("%q, the table in StreamARN, or no name", arn.table))
	}
	// Each write of a lease would be a change to read, and that to checkpoint, which is a write again.
	if c.LeaseManagement.TableName == arn.table {
		f.add("LeaseManagement.TableName", strconv.Quote(arn.table), "another table than the one whose stream is read, which StreamARN names: "+c.StreamARN)
	} else if c.LeaseManagement.TableName == "" && c.ApplicationName == arn.table {
		f.add("ApplicationName", strconv.Quote(arn.table), "another name, or a LeaseManagement.TableName, since the lease table would be the one whose stream is read, which StreamARN names: "+c.StreamARN)
	}
}

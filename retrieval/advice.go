package retrieval

import (
	"errors"

	"github.com/shardlease/shardlease/shardsync"
)

// advice says what to do about an error that will not go away by itself.
func advice(api KinesisAPI, stream, arn string, err error) string {
	needed, client := "kinesis:ListShards, kinesis:DescribeStreamSummary, kinesis:GetShardIterator and kinesis:GetRecords", "Kinesis client"
	missing := "create the stream, or check its name, the region and the account"
	if l, ok := api.(LineageAPI); ok {
		needed, client = l.Permissions(), "client"
		missing = "it was looked for at " + arn + "; " + l.WhenMissing()
	}
	switch {
	case errors.Is(err, shardsync.ErrStreamNotFound):
		return missing
	case errors.Is(err, shardsync.ErrStreamDeleting):
		return "wait until it is deleted and create it anew, or name another stream"
	case errors.Is(err, shardsync.ErrOtherHistory):
		return shardsync.HistoryAdvice
	case errors.Is(err, shardsync.ErrNotAllowed):
		return "check the credentials, and allow them " + needed + " on stream " + stream
	case !reached(err):
		return "check the region, the endpoint and the credentials of the " + client
	}
	return ""
}

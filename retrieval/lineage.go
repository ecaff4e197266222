package retrieval

import (
	"errors"

	"github.com/aws/smithy-go"
)

// LineageAPI is a KinesisAPI in front of another service, whose shards have no hash keys: it tells which shard follows which, and
// nothing else of what becomes of a key. Package dynamostreams has one.
type LineageAPI interface {
	KinesisAPI
	// Ended reports whether the stream with this ARN, as it was last listed, takes no more records: its shards end and nothing follows them.
	Ended(arn string) bool
	// Region is where the client reads, empty if that is not known.
	Region() string
	// Permissions are those that reading a stream needs, for people.
	Permissions() string
	// WhenMissing is what to do if there is no such stream, for people.
	WhenMissing() string
}

// byLineage adapts what a listing says of a reader's shard to a service without hash keys.
func (at *listing) byLineage(ended bool) {
	if len(at.children) > 0 || ended {
		// What follows a shard may be listed before its own end is. Of two that follow one may be seen later; an audit
		// brings it then.
		at.open, at.inherited = false, true
	}
}

// wasTrimmed reports whether a service says that the record is not kept any more at which, or after which, reading was to go on. Kinesis
// does not say so.
func wasTrimmed(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "TrimmedDataAccessException"
}

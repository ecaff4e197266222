package kinesis

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// tokenTTL is how long a NextToken is good for.
const tokenTTL = 5 * time.Minute

type shardFilter struct {
	Type      string
	ShardId   string     `json:",omitempty"`
	Timestamp *wire.Time `json:",omitempty"`
}

type listShardsInput struct {
	streamRef
	NextToken, ExclusiveStartShardId string
	MaxResults                       *int
	StreamCreationTimestamp          *wire.Time
	ShardFilter                      *shardFilter
}

type listShardsOutput struct {
	Shards    []shardShape
	NextToken string `json:",omitempty"`
}

// listToken is what a NextToken holds: where to go on, in the same list.
type listToken struct {
	Stream  string
	Created int64 // the stream's, nanoseconds: one made anew under the name is another
	Issued  int64 // Unix milliseconds
	After   string
	Filter  *shardFilter `json:",omitempty"`
	// Horizon, Unix nanoseconds, is the trim horizon when the list began, so that all its pages mean the same moment.
	Horizon int64
}

func (k *Service) listShards(now time.Time, in *listShardsInput) (any, *wire.Error) {
	limit, err := within("MaxResults", in.MaxResults, 1000, 10_000)
	if err != nil {
		return nil, err
	}
	var s *stream
	var page listToken
	if in.NextToken != "" {
		s, page, err = k.resumeList(now, in)
	} else {
		s, page, err = k.beginList(now, in)
	}
	if err != nil {
		return nil, err
	}
	if err := k.rate("ListShards", s.arn, 1000); err != nil {
		return nil, err
	}
	matches := s.filter(page.Filter, time.Unix(0, page.Horizon))
	out := listShardsOutput{Shards: []shardShape{}}
	for _, x := range s.shards {
		if x.id <= page.After || !s.keeps(now, x) || !matches(x) {
			continue
		}
		if len(out.Shards) == limit {
			page.After, page.Issued = out.Shards[limit-1].ShardId, now.UnixMilli()
			raw, _ := json.Marshal(page) // strings and numbers
			out.NextToken = base64.StdEncoding.EncodeToString(raw)
			break
		}
		out.Shards = append(out.Shards, x.shape())
	}
	return out, nil
}

func (k *Service) beginList(now time.Time, in *listShardsInput) (*stream, listToken, *wire.Error) {
	s, err := k.find(now, in.streamRef)
	if err != nil {
		return nil, listToken{}, err
	}
	if s.busy == creating || s.busy == deleting {
		return nil, listToken{}, inUse("Stream %s under account %s not ACTIVE, instead in state %s", s.name, Account, s.busy)
	}
	if err := checkFilter(in.ShardFilter); err != nil {
		return nil, listToken{}, err
	}
	if t := in.StreamCreationTimestamp; t != nil && t.UnixMilli() != s.created.UnixMilli() {
		return nil, listToken{}, notFound("Stream %s created at %s not found: this one was created at %s", s.name, t.UTC(), s.created.UTC())
	}
	return s, listToken{
		Stream: s.name, Created: s.created.UnixNano(), After: in.ExclusiveStartShardId, Filter: in.ShardFilter,
		Horizon: s.horizon(now).UnixNano(),
	}, nil
}

func (k *Service) resumeList(now time.Time, in *listShardsInput) (*stream, listToken, *wire.Error) {
	if in.streamRef != (streamRef{}) || in.ExclusiveStartShardId != "" || in.StreamCreationTimestamp != nil || in.ShardFilter != nil {
		return nil, listToken{}, invalid("NextToken cannot be given together with StreamName, StreamARN, StreamId, ExclusiveStartShardId, StreamCreationTimestamp or ShardFilter")
	}
	var page listToken
	raw, err := base64.StdEncoding.DecodeString(in.NextToken)
	if err != nil || json.Unmarshal(raw, &page) != nil {
		return nil, listToken{}, invalid("NextToken is not one that ListShards gave")
	}
	if now.Sub(time.UnixMilli(page.Issued)) > tokenTTL {
		return nil, listToken{}, wire.Errorf("ExpiredNextTokenException", "NextToken was issued at %s and good for %s", time.UnixMilli(page.Issued).UTC(), tokenTTL)
	}
	s := k.byName(now, page.Stream)
	if s == nil || s.created.UnixNano() != page.Created {
		return nil, listToken{}, notFound("Stream %s under account %s not found.", page.Stream, Account)
	}
	return s, page, checkFilter(page.Filter)
}

func checkFilter(f *shardFilter) *wire.Error {
	if f == nil {
		return nil
	}
	wantsID, wantsTime := false, false
	switch f.Type {
	case "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON", "AT_LATEST":
	case "AFTER_SHARD_ID":
		wantsID = true
	case "AT_TIMESTAMP", "FROM_TIMESTAMP":
		wantsTime = true
	default:
		return malformed("ShardFilter.Type is %q, want AFTER_SHARD_ID, AT_TRIM_HORIZON, FROM_TRIM_HORIZON, AT_LATEST, AT_TIMESTAMP or FROM_TIMESTAMP", f.Type)
	}
	if wantsID != (f.ShardId != "") {
		return invalid("ShardFilter.ShardId is %q: it goes with the type AFTER_SHARD_ID and only with it, not with %s", f.ShardId, f.Type)
	}
	if wantsTime != (f.Timestamp != nil) {
		return invalid("ShardFilter.Timestamp goes with the types AT_TIMESTAMP and FROM_TIMESTAMP and only with them; the type is %s", f.Type)
	}
	return nil
}

// filter is which shards a ListShards gives. The types that begin with AT give the shards that covered the ring at one
// moment, each hash key once; the others whatever was open then or later.
func (s *stream) filter(f *shardFilter, horizon time.Time) func(*shard) bool {
	if f == nil {
		return func(*shard) bool { return true }
	}
	at := horizon
	if f.Timestamp != nil && f.Timestamp.After(horizon) {
		at = f.Timestamp.Time
	}
	switch f.Type {
	case "AFTER_SHARD_ID":
		return func(x *shard) bool { return x.id > f.ShardId }
	case "AT_LATEST":
		return func(x *shard) bool { return !x.closed() }
	case "AT_TRIM_HORIZON", "AT_TIMESTAMP":
		return func(x *shard) bool { return s.openAt(x, at) }
	}
	return func(x *shard) bool { return !x.closed() || !x.closedAt.Before(at) }
}

// openAt tells whether the shard was open at t. At its very creation, which may be the moment of a split too where time
// stands still between two calls, a stream has its first shards.
func (s *stream) openAt(x *shard, t time.Time) bool {
	if !t.After(s.created) {
		return x.parent == nil
	}
	return !x.born.After(t) && (!x.closed() || x.closedAt.After(t))
}

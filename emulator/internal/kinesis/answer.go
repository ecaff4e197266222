package kinesis

import "github.com/shardlease/shardlease/emulator/internal/wire"

// Shapes that several answers share. Their fields are the service's members.

type hashKeyRange struct{ StartingHashKey, EndingHashKey string }

type sequenceRange struct {
	StartingSequenceNumber string
	EndingSequenceNumber   string `json:",omitempty"`
}

type shardShape struct {
	ShardId               string
	ParentShardId         string `json:",omitempty"`
	AdjacentParentShardId string `json:",omitempty"`
	HashKeyRange          hashKeyRange
	SequenceNumberRange   sequenceRange
}

type childShape struct {
	ShardId      string
	ParentShards []string
	HashKeyRange hashKeyRange
}

type modeShape struct{ StreamMode string }

type monitoringShape struct{ ShardLevelMetrics []string }

type tagShape struct{ Key, Value string }

// streamShape is the part that DescribeStream and DescribeStreamSummary have in common.
type streamShape struct {
	StreamName              string
	StreamARN               string
	StreamStatus            string
	StreamModeDetails       modeShape
	RetentionPeriodHours    int
	StreamCreationTimestamp wire.Time
	EncryptionType          string
	KeyId                   string `json:",omitempty"`
	EnhancedMonitoring      []monitoringShape
}

func (x *shard) keys() hashKeyRange { return hashKeyRange{x.lo.String(), x.hi.String()} }

func (x *shard) shape() shardShape {
	out := shardShape{
		ShardId: x.id, HashKeyRange: x.keys(),
		SequenceNumberRange: sequenceRange{StartingSequenceNumber: x.sequence(x.start)},
	}
	if x.closed() {
		out.SequenceNumberRange.EndingSequenceNumber = x.sequence(x.end)
	}
	if x.parent != nil {
		out.ParentShardId = x.parent.id
	}
	if x.adjacent != nil {
		out.AdjacentParentShardId = x.adjacent.id
	}
	return out
}

// childShapes is never nil: at the end of a shard the member is there, if need be empty.
func (x *shard) childShapes() []childShape {
	out := make([]childShape, 0, len(x.children))
	for _, c := range x.children {
		parents := []string{c.parent.id}
		if c.adjacent != nil {
			parents = append(parents, c.adjacent.id)
		}
		out = append(out, childShape{c.id, parents, c.keys()})
	}
	return out
}

func (s *stream) encryption() string {
	if s.keyID != "" {
		return "KMS"
	}
	return "NONE"
}

func (s *stream) shape() streamShape {
	return streamShape{
		StreamName: s.name, StreamARN: s.arn, StreamStatus: s.status(), StreamModeDetails: modeShape{s.mode},
		RetentionPeriodHours: int(s.retention.Hours()), StreamCreationTimestamp: wire.Time{Time: s.created},
		EncryptionType: s.encryption(), KeyId: s.keyID,
		EnhancedMonitoring: []monitoringShape{{ShardLevelMetrics: []string{}}},
	}
}

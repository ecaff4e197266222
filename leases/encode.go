package leases

import (
	"math"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// encode is the row of a lease: what is empty is left out, since KCL takes neither empty strings nor empty sets.
func encode(l Lease) item {
	row := item{
		attrKey:        str(l.Key),
		attrCounter:    number(l.Counter),
		attrSwitches:   number(l.OwnerSwitches),
		attrCheckpoint: str(l.Checkpoint.SequenceNumber),
		attrSub:        number(l.Checkpoint.SubSequenceNumber),
	}
	for name, s := range map[string]string{
		attrOwner: l.Owner, attrCheckpointOwner: l.CheckpointOwner, attrEntityType: l.EntityType,
		attrStream: l.StreamName, attrShard: l.ShardID, attrHandoffTo: l.HandoffTo, attrStreamARN: l.StreamARN,
	} {
		if s != "" {
			row[name] = str(s)
		}
	}
	if p := l.Pending; p != nil {
		row[attrPending] = str(p.At.SequenceNumber)
		row[attrPendingSub] = number(p.At.SubSequenceNumber)
		if p.State != nil {
			row[attrPendingState] = &types.AttributeValueMemberB{Value: p.State}
		}
	}
	if len(l.ParentShardIDs) > 0 {
		row[attrParents] = &types.AttributeValueMemberSS{Value: l.ParentShardIDs}
	}
	if len(l.ChildShardIDs) > 0 {
		row[attrChildren] = &types.AttributeValueMemberSS{Value: l.ChildShardIDs}
	}
	if l.HashKeyRange.Known {
		row[attrStartHash] = str(l.HashKeyRange.Start.String())
		row[attrEndHash] = str(l.HashKeyRange.End.String())
	}
	if l.HasThroughput {
		row[attrThroughput] = throughput(l.ThroughputKBps)
	}
	if l.Tenure != nil {
		row[attrTenure] = encodeTenure(*l.Tenure)
	}
	if l.StartAtMillis != 0 {
		row[attrStartAt] = number(l.StartAtMillis)
	}
	return row
}

func encodeTenure(t Tenure) types.AttributeValue {
	m := item{
		tenureWorker:   str(t.Worker),
		tenureNonce:    str(t.Nonce),
		tenureAt:       number(t.At),
		tenureFailover: number(t.Failover.Milliseconds()),
	}
	if t.Max > 0 {
		m[tenureMax] = number(int64(t.Max))
	}
	if t.Zone != "" {
		m[tenureZone] = str(t.Zone)
	}
	if t.Leaving {
		m[tenureLeaving] = &types.AttributeValueMemberBOOL{Value: true}
	}
	return &types.AttributeValueMemberM{Value: m}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// throughput writes a rate with at most six decimals, as KCL does. What is no number is written as 0.
func throughput(kBps float64) types.AttributeValue {
	if math.IsNaN(kBps) || math.IsInf(kBps, 0) {
		kBps = 0
	}
	if rounded := math.Round(kBps*1e6) / 1e6; !math.IsInf(rounded, 0) {
		kBps = rounded
	}
	return &types.AttributeValueMemberN{Value: strconv.FormatFloat(kBps, 'f', -1, 64)}
}

package leases

import (
	"context"
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Create adds a row. It succeeds only if there is none with this key; created is false if there is one, which is then left
// as it is. After a lost reply a row that is exactly l counts as created by this call, although another worker that
// wanted the same row may have made it.
//
// An empty EntityType becomes LEASE, which every version of KCL takes. (KCL: createLeaseIfNotExists)
func (t *Table) Create(ctx context.Context, l Lease) (created bool, err error) {
	op := operation{what: "create lease", key: l.Key, action: "PutItem", limit: t.attempt, rank: rankMove}
	if l.EntityType == "" {
		l.EntityType = entityLease
	}
	row := encode(l)
	if _, err := (decoder{}).decode(row); err != nil {
		return false, &PermanentError{Doing: op.String(), Err: err}
	}
	in := &dynamodb.PutItemInput{
		TableName: &t.cfg.TableName, Item: row,
		ConditionExpression:                 aws.String("attribute_not_exists(#k)"),
		ExpressionAttributeNames:            map[string]string{"#k": attrKey},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	tries := 0
	err = t.call(ctx, op, func(ctx context.Context) error {
		tries++
		_, err := t.api.PutItem(ctx, in, noRetries)
		return err
	})
	if err == nil {
		return true, nil
	}
	if kindOf(err) != conditionFailed {
		return false, err
	}
	if tries == 1 {
		return false, nil // the usual loser of a race: no need to look
	}
	there, err := t.afterFailedCondition(ctx, op, l.Key, err)
	if err != nil {
		return false, err
	}
	mine, err := (decoder{}).decode(row)
	return err == nil && reflect.DeepEqual(there, mine), nil
}

// Delete removes a row. It succeeds only if counter, checkpoint, and the nonce or (without a tenure) the owner, are as seen, so that a row which anybody uses
// stays. A row that is gone already is a success. (KCL: deleteLease, which has no condition)
func (t *Table) Delete(ctx context.Context, seen Lease) error {
	op := operation{what: "delete lease", key: seen.Key, action: "DeleteItem", limit: t.attempt, rank: rankTidy}
	e := newExpression()
	e.unchanged(seen)
	e.equal(str(seen.Checkpoint.SequenceNumber), attrCheckpoint)
	in := &dynamodb.DeleteItemInput{
		TableName: &t.cfg.TableName, Key: item{attrKey: str(seen.Key)},
		ConditionExpression: e.condition(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	err := t.call(ctx, op, func(ctx context.Context) error {
		_, err := t.api.DeleteItem(ctx, in, noRetries)
		return err
	})
	if err == nil {
		return nil
	}
	row, err := t.afterFailedCondition(ctx, op, seen.Key, err)
	if err != nil || row.Key == "" {
		return err
	}
	return op.lost(fmt.Sprintf("%s; checkpoint is %v, was %v", unlike(row, seen), row.Checkpoint, seen.Checkpoint))
}

// UpdateMetadata adds what became known of a shard. It succeeds only if the row exists. It does not move the counter and
// so disturbs no owner; StartAtMillis is written only if the row has none. Writing nothing does nothing.
// (KCL: updateLeaseWithMetaInfo)
func (t *Table) UpdateMetadata(ctx context.Context, key string, m Metadata) error {
	op := operation{what: "update metadata of lease", key: key, action: "UpdateItem", limit: t.attempt, rank: rankMove}
	e := newExpression()
	if len(m.ChildShardIDs) > 0 {
		e.set(attrChildren, &types.AttributeValueMemberSS{Value: m.ChildShardIDs})
	}
	if m.HashKeyRange.Known {
		e.set(attrStartHash, str(m.HashKeyRange.Start.String()))
		e.set(attrEndHash, str(m.HashKeyRange.End.String()))
	}
	if m.StartAtMillis != 0 {
		e.setIfAbsent(attrStartAt, number(m.StartAtMillis))
	}
	if len(e.sets) == 0 {
		return nil
	}
	e.exists(attrKey)
	in := e.updateItem(t.cfg.TableName, key)
	in.ReturnValues = types.ReturnValueNone
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureNone
	err := t.call(ctx, op, func(ctx context.Context) error {
		_, err := t.api.UpdateItem(ctx, in, noRetries)
		return err
	})
	if err != nil && kindOf(err) == conditionFailed {
		return op.lost("its row is gone")
	}
	return err
}

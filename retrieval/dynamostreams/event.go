package dynamostreams

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/processor"
)

// Event is one change of one item.
type Event struct {
	ID   string // the same whenever the record is read
	Name Name
	// Keys are the item's key attributes.
	Keys map[string]types.AttributeValue
	// NewImage is the item after the change and OldImage the one before it, as far as the stream's view has them: nil after a
	// REMOVE, before an INSERT, and where StreamViewType leaves them out.
	NewImage, OldImage map[string]types.AttributeValue
	SequenceNumber     string    // 21 to 40 decimal digits; ascending in a shard, and for all changes of one item
	Created            time.Time // about when the item was changed, to the second
	SizeBytes          int64     // of keys and images, as the service counts them
	StreamViewType     string    // KEYS_ONLY, NEW_IMAGE, OLD_IMAGE or NEW_AND_OLD_IMAGES
	// Expired says that DynamoDB's Time to Live has removed the item, and not a client.
	Expired bool
}

// Name is the kind of a change.
type Name string

// The kinds of changes.
const (
	Insert Name = "INSERT"
	Modify Name = "MODIFY"
	Remove Name = "REMOVE"
)

// EventOf reads the change that a record of a table's stream holds in its Data, which may have been stored meanwhile: nothing else of
// the record is needed. Images are of the types of service/dynamodb, so that they can be put into another table, or taken apart
// by attributevalue.UnmarshalMap, as they are. The error says that Data is no change of an item.
func EventOf(r processor.Record) (Event, error) {
	var raw struct {
		EventID   string `json:"eventID"`
		EventName Name   `json:"eventName"`
		Change    *struct {
			ApproximateCreationDateTime    float64
			Keys, NewImage, OldImage       map[string]value
			SequenceNumber, StreamViewType string
			SizeBytes                      int64
		} `json:"dynamodb"`
		UserIdentity struct {
			PrincipalID string `json:"principalId"`
			Type        string `json:"type"`
		} `json:"userIdentity"`
	}
	if err := json.Unmarshal(r.Data, &raw); err != nil {
		return Event{}, fmt.Errorf("read record %s of a table's stream: %w", r.SequenceNumber, unlike(err, "Data"))
	}
	if raw.Change == nil || raw.EventName == "" {
		return Event{}, fmt.Errorf("read record %s of a table's stream: it has no eventName, or no dynamodb", r.SequenceNumber)
	}
	c := raw.Change
	e := Event{
		ID: raw.EventID, Name: raw.EventName, Keys: plain(c.Keys), NewImage: plain(c.NewImage), OldImage: plain(c.OldImage),
		SequenceNumber: c.SequenceNumber, SizeBytes: c.SizeBytes, StreamViewType: c.StreamViewType,
		Expired: raw.UserIdentity.Type == "Service" && raw.UserIdentity.PrincipalID == "dynamodb.amazonaws.com",
	}
	if c.ApproximateCreationDateTime != 0 {
		e.Created = time.UnixMilli(int64(math.Round(c.ApproximateCreationDateTime * 1000))).UTC()
	}
	return e, nil
}

// unlike says which member is of another kind than a change has there, without naming types of Go.
func unlike(err error, what string) error {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	if e.Field != "" {
		what = e.Field + " of " + what
	}
	return fmt.Errorf("%s is a JSON %s, as no change of an item has it", what, e.Value)
}

// value is an attribute value in JSON.
type value struct{ types.AttributeValue }

// UnmarshalJSON implements json.Unmarshaler.
func (v *value) UnmarshalJSON(text []byte) error {
	var raw struct {
		S, N *string
		B    *[]byte
		BOOL *bool
		NULL *bool
		SS   *[]string
		NS   *[]string
		BS   *[][]byte
		L    *[]value
		M    *map[string]value
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return unlike(err, "an attribute value")
	}
	switch {
	case raw.S != nil:
		v.AttributeValue = &types.AttributeValueMemberS{Value: *raw.S}
	case raw.N != nil:
		v.AttributeValue = &types.AttributeValueMemberN{Value: *raw.N}
	case raw.B != nil:
		v.AttributeValue = &types.AttributeValueMemberB{Value: *raw.B}
	case raw.BOOL != nil:
		v.AttributeValue = &types.AttributeValueMemberBOOL{Value: *raw.BOOL}
	case raw.NULL != nil:
		v.AttributeValue = &types.AttributeValueMemberNULL{Value: *raw.NULL}
	case raw.SS != nil:
		v.AttributeValue = &types.AttributeValueMemberSS{Value: *raw.SS}
	case raw.NS != nil:
		v.AttributeValue = &types.AttributeValueMemberNS{Value: *raw.NS}
	case raw.BS != nil:
		v.AttributeValue = &types.AttributeValueMemberBS{Value: *raw.BS}
	case raw.L != nil:
		list := make([]types.AttributeValue, 0, len(*raw.L))
		for _, e := range *raw.L {
			list = append(list, e.AttributeValue)
		}
		v.AttributeValue = &types.AttributeValueMemberL{Value: list}
	case raw.M != nil:
		v.AttributeValue = &types.AttributeValueMemberM{Value: plain(*raw.M)}
	default:
		return errors.New("an attribute value has none of S, N, B, BOOL, NULL, SS, NS, BS, L and M")
	}
	return nil
}

// plain takes the values out.
func plain(item map[string]value) map[string]types.AttributeValue {
	if item == nil {
		return nil
	}
	out := make(map[string]types.AttributeValue, len(item))
	for name, v := range item {
		out[name] = v.AttributeValue
	}
	return out
}

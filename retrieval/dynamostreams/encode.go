package dynamostreams

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// appendRecord writes a record as the service's API has it, with the names of each object in order. Two pages that hold the same
// record hold the same bytes.
func appendRecord(b []byte, r types.Record) []byte {
	if d := r.Dynamodb; d != nil && b == nil {
		b = make([]byte, 0, 256+2*aws.ToInt64(d.SizeBytes))
	}
	b = append(b, '{')
	b = appendMember(b, "awsRegion", aws.ToString(r.AwsRegion))
	if r.Dynamodb != nil {
		b = appendName(b, "dynamodb")
		b = appendChange(b, r.Dynamodb)
	}
	b = appendMember(b, "eventID", aws.ToString(r.EventID))
	b = appendMember(b, "eventName", string(r.EventName))
	b = appendMember(b, "eventSource", aws.ToString(r.EventSource))
	b = appendMember(b, "eventVersion", aws.ToString(r.EventVersion))
	if u := r.UserIdentity; u != nil {
		b = append(appendName(b, "userIdentity"), '{')
		b = appendMember(b, "principalId", aws.ToString(u.PrincipalId))
		b = appendMember(b, "type", aws.ToString(u.Type))
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendChange(b []byte, d *types.StreamRecord) []byte {
	b = append(b, '{')
	if t := d.ApproximateCreationDateTime; t != nil {
		b = strconv.AppendFloat(appendName(b, "ApproximateCreationDateTime"), float64(t.UnixMilli())/1000, 'f', -1, 64)
	}
	for _, image := range []struct {
		name string
		item map[string]types.AttributeValue
	}{{"Keys", d.Keys}, {"NewImage", d.NewImage}, {"OldImage", d.OldImage}} {
		if image.item != nil {
			b = appendItem(appendName(b, image.name), image.item)
		}
	}
	b = appendMember(b, "SequenceNumber", aws.ToString(d.SequenceNumber))
	if d.SizeBytes != nil {
		b = strconv.AppendInt(appendName(b, "SizeBytes"), *d.SizeBytes, 10)
	}
	b = appendMember(b, "StreamViewType", string(d.StreamViewType))
	return append(b, '}')
}

// appendName writes a member's name, and the comma before it.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendText(b, name), ':')
}

// appendMember writes a member that is a string, if it is not empty.
func appendMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendText(appendName(b, name), value)
}

func appendText(b []byte, s string) []byte {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return append(append(append(b, '"'), s...), '"')
	}
	text, err := json.Marshal(s)
	if err != nil {
		return append(b, `""`...) // no string is refused
	}
	return append(b, text...)
}

func appendItem(b []byte, item map[string]types.AttributeValue) []byte {
	b = append(b, '{')
	for _, name := range slices.Sorted(maps.Keys(item)) {
		b = appendValue(appendName(b, name), item[name])
	}
	return append(b, '}')
}

func appendValue(b []byte, v types.AttributeValue) []byte {
	b = append(b, '{')
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		b = appendText(appendName(b, "S"), v.Value)
	case *types.AttributeValueMemberN:
		b = appendText(appendName(b, "N"), v.Value)
	case *types.AttributeValueMemberB:
		b = appendBytes(appendName(b, "B"), v.Value)
	case *types.AttributeValueMemberBOOL:
		b = strconv.AppendBool(appendName(b, "BOOL"), v.Value)
	case *types.AttributeValueMemberNULL:
		b = strconv.AppendBool(appendName(b, "NULL"), v.Value)
	case *types.AttributeValueMemberSS:
		b = appendList(appendName(b, "SS"), v.Value, appendText)
	case *types.AttributeValueMemberNS:
		b = appendList(appendName(b, "NS"), v.Value, appendText)
	case *types.AttributeValueMemberBS:
		b = appendList(appendName(b, "BS"), v.Value, appendBytes)
	case *types.AttributeValueMemberL:
		b = appendList(appendName(b, "L"), v.Value, appendValue)
	case *types.AttributeValueMemberM:
		b = appendItem(appendName(b, "M"), v.Value)
	}
	return append(b, '}')
}

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func appendBytes(b, v []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

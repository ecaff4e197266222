package dynamostreams

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	plaintypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/processor"
)

// pair is one attribute value as both services' types have it.
type pair struct {
	streamed types.AttributeValue
	plain    plaintypes.AttributeValue
}

func pairs(depth int) *rapid.Generator[pair] {
	return rapid.Custom(func(t *rapid.T) pair {
		kinds := 8
		if depth > 0 {
			kinds = 10
		}
		texts := rapid.SliceOfN(rapid.String(), 1, 4)
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			s := rapid.String().Draw(t, "S")
			return pair{&types.AttributeValueMemberS{Value: s}, &plaintypes.AttributeValueMemberS{Value: s}}
		case 1:
			n := rapid.StringMatching(`-?[1-9][0-9]{0,37}`).Draw(t, "N")
			return pair{&types.AttributeValueMemberN{Value: n}, &plaintypes.AttributeValueMemberN{Value: n}}
		case 2:
			b := rapid.SliceOf(rapid.Byte()).Draw(t, "B")
			return pair{&types.AttributeValueMemberB{Value: b}, &plaintypes.AttributeValueMemberB{Value: b}}
		case 3:
			v := rapid.Bool().Draw(t, "BOOL")
			return pair{&types.AttributeValueMemberBOOL{Value: v}, &plaintypes.AttributeValueMemberBOOL{Value: v}}
		case 4:
			return pair{&types.AttributeValueMemberNULL{Value: true}, &plaintypes.AttributeValueMemberNULL{Value: true}}
		case 5:
			v := texts.Draw(t, "SS")
			return pair{&types.AttributeValueMemberSS{Value: v}, &plaintypes.AttributeValueMemberSS{Value: v}}
		case 6:
			v := rapid.SliceOfN(rapid.StringMatching(`[1-9][0-9]{0,20}`), 1, 4).Draw(t, "NS")
			return pair{&types.AttributeValueMemberNS{Value: v}, &plaintypes.AttributeValueMemberNS{Value: v}}
		case 7:
			v := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 1, 3).Draw(t, "BS")
			return pair{&types.AttributeValueMemberBS{Value: v}, &plaintypes.AttributeValueMemberBS{Value: v}}
		case 8:
			streamed, plain := []types.AttributeValue{}, []plaintypes.AttributeValue{}
			for _, p := range rapid.SliceOfN(pairs(depth-1), 0, 3).Draw(t, "L") {
				streamed, plain = append(streamed, p.streamed), append(plain, p.plain)
			}
			return pair{&types.AttributeValueMemberL{Value: streamed}, &plaintypes.AttributeValueMemberL{Value: plain}}
		default:
			streamed, plain := items(depth-1).Draw(t, "M").both()
			return pair{&types.AttributeValueMemberM{Value: streamed}, &plaintypes.AttributeValueMemberM{Value: plain}}
		}
	})
}

type itemOfPairs map[string]pair

func items(depth int) *rapid.Generator[itemOfPairs] {
	return rapid.Custom(func(t *rapid.T) itemOfPairs {
		return rapid.MapOfN(rapid.String(), pairs(depth), 0, 4).Draw(t, "item")
	})
}

func (i itemOfPairs) both() (streamed map[string]types.AttributeValue, plain map[string]plaintypes.AttributeValue) {
	streamed, plain = map[string]types.AttributeValue{}, map[string]plaintypes.AttributeValue{}
	for name, p := range i {
		streamed[name], plain[name] = p.streamed, p.plain
	}
	return streamed, plain
}

// Whatever a change holds, the event that is made of the record's bytes holds the same.
func TestEventOf_isTheChangeThatTheStreamTold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		keys, wantKeys := items(0).Draw(rt, "keys").both()
		newImage, wantNew := items(3).Draw(rt, "new image").both()
		want := Event{
			ID: rapid.StringMatching(`[0-9a-f]{32}`).Draw(rt, "id"), Name: rapid.SampledFrom([]Name{Insert, Modify, Remove}).Draw(rt, "name"),
			Keys: wantKeys, NewImage: wantNew, SequenceNumber: rapid.StringMatching(`[1-9][0-9]{20,39}`).Draw(rt, "number"),
			Created: time.Unix(rapid.Int64Range(1, 4e9).Draw(rt, "created"), 0).UTC(), SizeBytes: rapid.Int64Range(1, 1<<20).Draw(rt, "size"),
			StreamViewType: "NEW_IMAGE", Expired: rapid.Bool().Draw(rt, "expired"),
		}
		in := types.Record{
			AwsRegion: aws.String("us-east-1"), EventID: &want.ID, EventName: types.OperationType(want.Name), EventSource: aws.String("aws:dynamodb"),
			Dynamodb: &types.StreamRecord{
				ApproximateCreationDateTime: &want.Created, Keys: keys, NewImage: newImage, SequenceNumber: &want.SequenceNumber,
				SizeBytes: &want.SizeBytes, StreamViewType: types.StreamViewTypeNewImage,
			},
		}
		if want.Expired {
			in.UserIdentity = &types.Identity{PrincipalId: aws.String("dynamodb.amazonaws.com"), Type: aws.String("Service")}
		}
		r := recordOf(in)
		if *r.SequenceNumber != want.SequenceNumber || !r.ApproximateArrivalTimestamp.Equal(want.Created) || !json.Valid(r.Data) || !json.Valid([]byte(*r.PartitionKey)) {
			rt.Fatalf("record %+v of change %+v", r, want)
		}
		got, err := EventOf(processor.Record{Data: r.Data})
		if err != nil {
			rt.Fatal(err)
		}
		ignore := []any{
			plaintypes.AttributeValueMemberS{},
			plaintypes.AttributeValueMemberN{},
			plaintypes.AttributeValueMemberB{},
			plaintypes.AttributeValueMemberBOOL{},
			plaintypes.AttributeValueMemberNULL{},
			plaintypes.AttributeValueMemberSS{},
			plaintypes.AttributeValueMemberNS{},
			plaintypes.AttributeValueMemberBS{},
			plaintypes.AttributeValueMemberL{},
			plaintypes.AttributeValueMemberM{},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(ignore...), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("the event (-want +got):\n%s", diff)
		}
	})
}

func TestEventOf_refusesWhatIsNoChange(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"hello":                  "read record 49 of a table's stream",
		"{}":                     "no eventName",
		`{"eventName":"INSERT"}`: "no dynamodb",
		`{"eventName":"INSERT","dynamodb":{"Keys":{"id":{}}}}`:           "none of S, N",
		`{"eventName":"INSERT","dynamodb":{"Keys":{"id":{"B":"%%%%"}}}}`: "base64",
		"[]": "stream: Data is a JSON array, as no change of an item has it",
		`{"eventName":"INSERT","dynamodb":{"SizeBytes":"7"}}`:       "stream: dynamodb.SizeBytes of Data is a JSON string, as",
		`{"eventName":"INSERT","dynamodb":{"Keys":{"id":[]}}}`:      "stream: an attribute value is a JSON array, as",
		`{"eventName":"INSERT","dynamodb":{"Keys":{"id":{"S":1}}}}`: "stream: S of an attribute value is a JSON number, as",
	} {
		_, err := EventOf(processor.Record{SequenceNumber: "49", Data: []byte(data)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "49") {
			t.Errorf("%s is refused with %v, want %q", data, err, want)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	image := map[string]types.AttributeValue{
		"id": &types.AttributeValueMemberS{Value: "order-12345"}, "note": &types.AttributeValueMemberS{Value: strings.Repeat("x", 200)},
		"n": &types.AttributeValueMemberN{Value: "17"},
	}
	at, number, size := time.Unix(1e9, 0), "400000000000000499660", int64(500)
	r := types.Record{EventName: types.OperationTypeModify, Dynamodb: &types.StreamRecord{
		Keys: map[string]types.AttributeValue{"id": image["id"]}, NewImage: image, OldImage: image, ApproximateCreationDateTime: &at, SequenceNumber: &number, SizeBytes: &size,
	}}
	b.Run("to JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			recordOf(r)
		}
	})
	data := recordOf(r).Data
	b.Run("to an event", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EventOf(processor.Record{Data: data}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

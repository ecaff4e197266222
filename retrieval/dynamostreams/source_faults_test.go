package dynamostreams_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

// A position that was trimmed is told, and reading goes on with the oldest record that is left; also if it is trimmed while the
// reader stands there.
func TestSource_goesOnFromTheOldestRecordThatIsLeft(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		w.put(0, 3)
		s := w.open(retrieval.Start{})
		_, last, _ := w.take(s, 3)
		s.Close()
		w.put(3, 5)
		time.Sleep(25 * time.Hour)
		w.put(5, 8)
		s = w.open(retrieval.Start{From: last})
		defer s.Close()
		got, _, _ := w.take(s, 3)
		w.equal("what is left", numbers(5, 8), got)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.trims) != 1 || w.trims[0].Position != last.SequenceNumber {
			w.Errorf("what was told is %+v", w.trims)
		}
	}, emulator.WithTableStreamShardLife(1000*time.Hour))
}

// Each fault strikes at the first read, in the midst of it, and where the shard's end is read and its children are asked for.
func TestSource_survivesEachFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effect emulator.Effect
		told   string
	}{
		"throttled":        {emulator.Throttle(), "Rate exceeded"},
		"500":              {emulator.Fail(500, "InternalServerError", "trouble"), "InternalServerError"},
		"503 without code": {emulator.Fail(503, "", ""), "503"},
		"lost reply":       {emulator.DropReply(), "reset"},
		"cut body":         {emulator.CutBody(10), ""},
		"refused":          {emulator.Refuse(), "refused"},
		"expired":          {emulator.Fail(400, "ExpiredIteratorException", "too old"), "ExpiredIterator"},
		"trimmed":          {emulator.Fail(400, "TrimmedDataAccessException", "gone"), "TrimmedDataAccess"},
		"access denied":    {emulator.Fail(400, "AccessDeniedException", "not yours"), "AccessDenied"},
		"unknown token":    {emulator.Fail(400, "UnrecognizedClientException", "who?"), "UnrecognizedClient"},
		"bad signature":    {emulator.Fail(400, "InvalidSignatureException", "clock"), "InvalidSignature"},
		"silence":          {emulator.DelayReply(2 * time.Minute), "took longer than 30s"},
		"validation":       {emulator.Fail(400, "ValidationException", "no"), "ValidationException"},
	} {
		for _, operation := range []string{"GetRecords", "GetShardIterator"} {
			t.Run(name+" "+operation, func(t *testing.T) {
				t.Parallel()
				over(t, func(w *world) {
					w.put(0, 250)
					id := w.shards()[0].ID
					w.strike(operation, 0, c.effect)
					s := w.open(retrieval.Start{ShardID: id})
					defer s.Close()
					got, _, _ := w.take(s, 250)
					w.equal("the changes", numbers(0, 250), got)
					if told := w.told(); operation == "GetRecords" && (len(told) == 0 || !strings.Contains(told[0], c.told)) {
						w.Errorf("told: %q, want %q", told, c.told)
					}
				})
			})
		}
		t.Run(name+" later", func(t *testing.T) {
			t.Parallel()
			over(t, func(w *world) {
				w.put(0, 1050)
				id := w.shards()[0].ID
				w.strike("GetRecords", 1, c.effect) // between two pages of a reader that is behind
				s := w.open(retrieval.Start{ShardID: id})
				defer s.Close()
				got, _, _ := w.take(s, 1050)
				w.equal("the changes while behind", numbers(0, 1050), got)
				time.Sleep(10 * time.Second)

				w.server.Inject(emulator.Rule{Service: emulator.DynamoDBStreams, Operation: "GetRecords", Times: 1, Effect: emulator.Fail(400, "ExpiredIteratorException", "too old")})
				w.strike("GetShardIterator", 0, c.effect) // in the midst, for a new one
				w.put(1050, 1100)
				got, _, _ = w.take(s, 50)
				w.equal("the changes at the tip", numbers(1050, 1100), got)

				w.strike("GetRecords", 0, c.effect)
				w.strike("DescribeStream", 0, c.effect)
				if _, err := w.server.RollTableStream("orders"); err != nil {
					t.Fatal(err)
				}
				if _, _, end := w.take(s, 1); end == nil || end.Gone || len(end.Children) != 1 {
					t.Errorf("the end is %+v, want one child", end)
				}
				told := strings.Join(w.told(), "\n")
				if n := strings.Count(told, c.told); n < 3 {
					t.Errorf("told %d times of it in\n%s", n, told)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.trims) != 0 {
					t.Errorf("told of what was trimmed: %+v", w.trims)
				}
			})
		})
	}
}

// strike makes three requests fail, once so many were let through.
func (w *world) strike(operation string, skip int, e emulator.Effect) {
	w.server.Inject(emulator.Rule{Service: emulator.DynamoDBStreams, Operation: operation, Skip: skip, Times: 3, Effect: e})
}

// told is what was told so far of what is tried again.
func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

func TestSource_saysWhichPermissionsAreMissing(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		w.server.Inject(emulator.Rule{Service: emulator.DynamoDBStreams, Effect: emulator.Fail(400, "AccessDeniedException", "not yours")})
		_, err := w.detector().ListShards(w.ctx, "orders", shardsync.Filter{})
		if !errors.Is(err, shardsync.ErrNotAllowed) || !strings.Contains(err.Error(), "allow them dynamodb:DescribeStream, dynamodb:GetShardIterator and dynamodb:GetRecords on stream orders") {
			w.Errorf("listing without permission: %v", err)
		}
	})
}

// Records are trimmed behind which a reader lags that was answered a short while ago, whether it has handed a record over since it was
// opened, or has only seen again the one at which it was.
func TestSource_tellsOfWhatIsTrimmedUnderAReaderThatLags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		operation string // that gets no answer
		anew      bool
	}{
		"its iterator":                      {"GetRecords", false},
		"a new one":                         {"", false},
		"its iterator, behind a checkpoint": {"GetRecords", true},
		"a new one, behind a checkpoint":    {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over(t, func(w *world) {
				w.put(0, 3)
				s := w.open(retrieval.Start{})
				_, last, _ := w.take(s, 3)
				if c.anew {
					s.Close()
					s = w.open(retrieval.Start{From: last})
					if b, err := s.Next(w.ctx); err != nil || len(b.Records) > 0 {
						t.Fatalf("%d records and %v, want none", len(b.Records), err)
					}
				}
				defer s.Close()
				restore := w.server.Inject(emulator.Rule{Service: emulator.DynamoDBStreams, Operation: c.operation, Effect: emulator.Freeze()})
				w.put(3, 5)
				time.Sleep(2 * time.Hour)
				w.put(5, 8)
				restore()
				got, _, _ := w.take(s, 3)
				w.equal("what is left", numbers(5, 8), got)
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.trims) != 1 || w.trims[0].Position != last.SequenceNumber {
					w.Errorf("what was told is %+v", w.trims)
				}
			}, emulator.WithTableStreamShardLife(1000*time.Hour), emulator.WithTableStreamRetention(time.Hour), emulator.WithIteratorTTL(100*time.Hour))
		})
	}
}

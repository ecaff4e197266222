package retrieval

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

// pollingFaults are the rows of the table in docs/reading.md, whose names a test holds to these. Each fault strikes so many requests in a row.
var pollingFaults = map[string]struct {
	effect emulator.Effect
	times  int
	within time.Duration // from the fault until the records are there, whichever call it strikes
}{
	"nothing":              {emulator.Effect{}, 0, 2 * time.Second},
	"throttled":            {emulator.Throttle(), 3, 4 * time.Second},
	"throttled by a limit": {emulator.Fail(400, "LimitExceededException", "slower"), 3, 4 * time.Second},
	"KMS throttled":        {emulator.Fail(400, "KMSThrottlingException", "slower"), 3, 4 * time.Second},
	"500":                  {emulator.Fail(500, "InternalFailure", "down"), 3, 3 * time.Second},
	"503 without a body":   {emulator.Fail(503, "", ""), 3, 3 * time.Second},
	"connection refused":   {emulator.Refuse(), 3, 3 * time.Second},
	"connection reset":     {emulator.DropReply(), 3, 3 * time.Second},
	"cut body":             {emulator.CutBody(20), 3, 3 * time.Second},
	"no answer":            {emulator.Delay(time.Hour), 2, 62 * time.Second},
	"a late answer":        {emulator.DelayReply(time.Hour), 2, 62 * time.Second},
	"credentials expired":  {emulator.Fail(400, "ExpiredTokenException", "expired"), 3, 3 * time.Second},
	"clock skewed":         {emulator.Fail(400, "InvalidSignatureException", "skewed"), 3, 10 * time.Second},
	"expired iterator":     {emulator.Fail(400, "ExpiredIteratorException", "expired"), 3, 10 * time.Second},
	"invalid argument":     {emulator.Fail(400, "InvalidArgumentException", "no"), 3, 10 * time.Second},
	"access denied":        {emulator.Fail(400, "AccessDeniedException", "no"), 3, 10 * time.Second},
	"KMS access denied":    {emulator.Fail(400, "KMSAccessDeniedException", "no key"), 3, 10 * time.Second},
	"KMS key disabled":     {emulator.Fail(400, "KMSDisabledException", "no key"), 3, 10 * time.Second},
	"KMS key not found":    {emulator.Fail(400, "KMSNotFoundException", "no key"), 3, 10 * time.Second},
	"KMS key in no state":  {emulator.Fail(400, "KMSInvalidStateException", "no key"), 3, 10 * time.Second},
	"stream is updated":    {emulator.Fail(400, "ResourceInUseException", "UPDATING"), 3, 10 * time.Second},
}

// Each fault strikes a reader at its first iterator, at its first page, and when it has read ten records, while ten more come and then the shard is split:
// all must come once, in order, and then the end.
func TestPolling_survivesEachFault(t *testing.T) {
	t.Parallel()
	for name, c := range pollingFaults {
		for _, operation := range []string{"GetShardIterator", "GetRecords"} {
			t.Run(name+"/"+operation, func(t *testing.T) {
				bubble(t, 1, func(ctx context.Context, w *world) {
					strike := func() {
						if c.times > 0 {
							w.server.Inject(emulator.Rule{Client: "reader", Operation: operation, Times: c.times, Effect: c.effect})
						}
					}
					w.put(10)
					strike()
					s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
					defer s.Close()
					began := time.Now()
					got, _ := w.take(ctx, s, 10)
					if took := time.Since(began); took > c.within {
						t.Errorf("at the first: it took %v, want at most %v", took, c.within)
					}
					time.Sleep(15 * time.Second)
					strike()
					if operation == "GetShardIterator" { // else it would not be asked for another one
						w.server.Inject(emulator.Rule{Client: "reader", Operation: "GetRecords", Times: 1, Effect: emulator.Fail(400, "ExpiredIteratorException", "expired")})
					}
					w.put(10)
					began = time.Now()
					more, _ := w.take(ctx, s, 10)
					if took := time.Since(began); took > c.within+time.Second {
						t.Errorf("in the midst: it took %v, want at most %v", took, c.within+time.Second)
					}
					w.split(shard0)
					last, end := w.toEnd(ctx, s)
					if diff := cmp.Diff(numbers(0, 20), slices.Concat(got, more, last)); diff != "" {
						t.Errorf("records (-want +got):\n%s", diff)
					}
					if end.Gone || len(end.Children) != 2 {
						t.Errorf("the end is %+v, want two children", end)
					}
					told := w.retried()
					if n := len(told); n < 2*c.times || n > 2*c.times+2 {
						t.Errorf("%d repetitions were told, want one for each of %d faults", n, 2*c.times)
					}
					for _, r := range told {
						if r.LeaseKey != shard0 || r.Err == nil || r.Attempt < 1 {
							t.Errorf("told was %+v", r)
						}
					}
				})
			})
		}
	}
}

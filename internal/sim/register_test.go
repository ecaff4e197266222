package sim

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// A renewal comes too late and is forgotten, a checkpoint of the end lands and its reply is lost; then the row shows an end that only the second
// of the two explains.
func TestRegister_explainsAnEndWithoutAnAnswerAfterARenewalWithoutOne(t *testing.T) {
	t.Parallel()
	const lease, tenure = "shardId-000000000000", "n/1"
	at := int64(0)
	op := func(kind opKind, counter int64, out outcome, ends bool) *rowOp {
		at += 2
		o := &rowOp{key: lease, kind: kind, at: counter, nonce: tenure, outcome: out, ends: ends, call: at - 1}
		if out != unanswered {
			o.returned = at
		}
		return o
	}
	refusal := op(opKeep, 2, refused, false)
	refusal.seen, refusal.shows = rowState{exists: true, ended: true, counter: 2, nonce: tenure}, true
	r := &register{ops: []*rowOp{
		op(opCreate, 0, done, false), op(opTake, 1, done, false),
		op(opKeep, 2, unanswered, false), op(opKeep, 2, unanswered, true), refusal,
	}}
	refusal.call, refusal.returned = at+1, at+2
	r.clock.Store(at + 2)
	if result, _ := r.check(checkLimit); result != porcupine.Ok {
		t.Errorf("the history is %v, want it explained: the end landed", result)
	}
}

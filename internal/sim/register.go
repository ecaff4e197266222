package sim

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// register records what processes asked of single rows of the lease table and what they were answered. It knows nothing of
// what the table did: that is what the checker has to explain, see [register.check]. A request without an answer may have been
// served at any time after it was sent, or never.
type register struct {
	clock atomic.Int64 // of calls and returns: only their order counts

	mu  sync.Mutex
	ops []*rowOp
}

type opKind int

const (
	opRead opKind = iota
	opCreate
	opDelete
	opTake     // by anybody who has seen the counter; also the regain after a restart
	opSucceed  // the first renewal after a hand-off, by the new tenure
	opKeep     // a renewal or a checkpoint
	opGiveUp   // a release
	opComplete // a hand-off is completed, by the old tenure or by one that follows it in a new process
	opAside    // moves no counter
)

var opNames = [...]string{"read", "create", "delete", "take", "succeed", "keep", "release", "complete", "write aside"}

type outcome int

const (
	unanswered outcome = iota
	done
	refused // its condition failed, and the answer shows the row
	void    // refused for another reason, which says that nothing was done
)

// rowOp is one request about one row.
type rowOp struct {
	process  string
	place    int
	key      string
	kind     opKind
	at       int64  // the counter that it writes; 0 if it writes none
	nonce    string // the tenure that it writes
	ends     bool   // it writes SHARD_END
	call     int64
	returned int64
	outcome  outcome
	seen     rowState // what the answer shows
	shows    bool     // the answer shows a row, or that there is none
	event    int      // how many events the history had when the answer came
}

func (r *register) begin(table bool, operation string) *rowOp {
	if !table {
		return nil
	}
	switch operation {
	case "UpdateItem", "PutItem", "DeleteItem", "GetItem":
		return &rowOp{}
	}
	return nil
}

// ask notes what is asked. The requests are the product's own, so that a few marks tell what they are about.
func (o *rowOp) ask(x *process, body []byte) {
	r := x.w.register
	o.process, o.place, o.key = x.name, x.place.n, between(body, `"leaseKey":{"S":"`)
	o.at, o.nonce = counterIn(body, `"at":{"N":"`), between(body, `"nonce":{"S":"`)
	update := between(body, `"UpdateExpression":"`)
	set, remove, _ := strings.Cut(update, "REMOVE ")
	removes := func(attr string) bool { return strings.Contains(remove+",", attr+",") }
	switch {
	case update == "" && bytes.Contains(body, []byte(`"Item":`)):
		o.kind = opCreate
	case update == "" && bytes.Contains(body, []byte(`"ConditionExpression":`)):
		o.kind = opDelete
	case update == "":
		o.kind = opRead
	case o.at == 0:
		o.kind = opAside
	case strings.Contains(set, "#leaseOwner = "):
		o.kind = opTake
	case removes("#leaseOwner"):
		o.kind = opGiveUp
	case removes("#checkpointOwner"):
		o.kind = opComplete
	case removes("#handoffTo"):
		o.kind = opSucceed
	default:
		o.kind = opKeep
		o.ends = strings.Contains(set, "#checkpoint = ") && bytes.Contains(body, []byte(`{"S":"SHARD_END"}`))
	}
	o.call = r.clock.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
}

// answered notes what the process was answered. Only then does it know.
func (o *rowOp) answered(r *register, a *reply, events int) {
	o.returned, o.event = r.clock.Add(1), events
	if a.err != nil || a.resp.StatusCode >= http.StatusInternalServerError {
		return
	}
	switch {
	case a.resp.StatusCode == http.StatusOK:
		o.outcome = done
	case bytes.Contains(a.body, []byte("ConditionalCheckFailedException")):
		o.outcome = refused
	default:
		o.outcome = void
	}
	o.seen = rowState{
		exists: bytes.Contains(a.body, []byte(`"leaseKey":`)), counter: counterIn(a.body, `"leaseCounter":{"N":"`),
		nonce: between(a.body, `"nonce":{"S":"`), ended: bytes.Contains(a.body, []byte(`"checkpoint":{"S":"SHARD_END"}`)),
	}
	o.shows = o.seen.exists || o.kind == opRead
}

func between(body []byte, mark string) string {
	_, after, ok := bytes.Cut(body, []byte(mark))
	if !ok {
		return ""
	}
	text, _, _ := bytes.Cut(after, []byte(`"`))
	return string(text)
}

func counterIn(body []byte, mark string) int64 {
	n, _ := strconv.ParseInt(between(body, mark), 10, 64)
	return n
}

// rowState is a lease's row as a register.
type rowState struct {
	exists, ended bool
	counter       int64
	nonce         string
	transit       bool // handed over and not kept by the successor yet; no answer is asked about it
}

// as reports whether an answer that shows seen may be given in state s.
func (s rowState) as(seen rowState) bool {
	s.transit = false
	return s == seen
}

func (s rowState) String() string {
	if !s.exists {
		return "no row"
	}
	text := fmt.Sprintf("counter %d of %s", s.counter, shortNonce(s.nonce))
	if s.ended {
		text += ", ended"
	}
	return text
}

// apply is what an operation makes of a row, and whether it may.
func (o *rowOp) apply(s rowState) (rowState, bool) {
	switch o.kind {
	case opRead, opAside:
		return s, true
	case opCreate:
		return rowState{exists: true}, !s.exists
	case opDelete:
		return rowState{}, s.exists && s.ended
	case opTake, opSucceed, opComplete:
		return rowState{true, s.ended, o.at, o.nonce, o.kind == opComplete}, s.exists && o.at == s.counter+1
	case opKeep, opGiveUp:
		mine := s.nonce == o.nonce || s.transit && o.kind == opGiveUp
		return rowState{true, s.ended || o.ends, o.at, o.nonce, false}, s.exists && o.at == s.counter+1 && mine
	}
	return s, false
}

// leaseRegister is the model: one register a row. A tenure keeps and gives up by its own counter only; anybody takes who has
// seen the last one; what is shown is what is there.
var leaseRegister = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			o, _ := op.Input.(*rowOp)
			byKey[o.key] = append(byKey[o.key], op)
		}
		parts := make([][]porcupine.Operation, 0, len(byKey))
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return rowState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, _ := state.(rowState)
		o, _ := input.(*rowOp)
		next, may := o.apply(s)
		switch o.outcome {
		case done:
			if !may || o.kind == opRead && !s.as(o.seen) || o.kind != opRead && o.shows && !next.as(o.seen) {
				return false, s
			}
			return true, next
		case refused:
			return !o.shows || s.as(o.seen), s
		case unanswered:
			if may {
				return true, next
			}
			return true, s // it came too late, or never
		case void:
		}
		return true, s
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string {
		o, _ := input.(*rowOp)
		return o.String()
	},
	DescribeState: func(state any) string { return fmt.Sprint(state) },
}

// what is what was asked.
func (o *rowOp) what() string {
	if o.at == 0 {
		return opNames[o.kind]
	}
	return fmt.Sprintf("%s, counter %d, tenure %s", opNames[o.kind], o.at, shortNonce(o.nonce))
}

func (o *rowOp) String() string {
	s := o.process + " " + o.what()
	switch o.outcome {
	case unanswered:
		return s + " without an answer"
	case refused:
		s += " refused"
	case done, void:
	}
	if o.shows {
		s += ": " + o.seen.String()
	}
	return s
}

// check looks for an order of all operations that explains every answer. It runs after the bubble.
func (r *register) check(limit time.Duration) (result porcupine.CheckResult, info porcupine.LinearizationInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.clock.Add(1)
	matters := r.mattering()
	history := make([]porcupine.Operation, 0, len(r.ops))
	for _, o := range r.ops {
		op := porcupine.Operation{ClientId: o.place, Input: o, Call: o.call, Return: o.returned}
		switch {
		case o.outcome == void || !isLease(o.key):
			continue
		case o.outcome == unanswered && !matters[o]:
			continue
		case o.outcome == unanswered:
			op.Return = end
		}
		history = append(history, op)
	}
	if result = porcupine.CheckOperationsTimeout(leaseRegister, history, limit); result != porcupine.Illegal {
		return result, info
	}
	return porcupine.CheckOperationsVerbose(leaseRegister, history, limit) // the same, and how far it got
}

// mattering are the operations without an answer that are needed to explain others. A checker may place each of the rest at
// the end, and takes exponential time to find that out by itself. They are, of a row whose counter never begins anew:
// the earliest of those tenures that may have written a counter that somebody has seen passed and nobody is known to have written; a
// renewal and the checkpoint of an end are two, since they leave different rows.
func (r *register) mattering() map[*rowOp]bool {
	type place struct {
		key string
		at  int64
	}
	written, passed := map[place]bool{}, map[string]int64{}
	for _, o := range r.ops {
		if o.outcome == done && o.kind != opRead && o.kind != opDelete && o.kind != opAside {
			written[place{o.key, o.at}] = true
		}
		if o.shows {
			passed[o.key] = max(passed[o.key], o.seen.counter)
		}
	}
	type try struct {
		place
		nonce string
		kind  opKind
		ends  bool
	}
	earliest := map[try]*rowOp{}
	for _, o := range r.ops {
		key := try{place{o.key, o.at}, o.nonce, o.kind, o.ends}
		if o.outcome != unanswered || o.kind == opRead || o.kind == opAside || o.kind != opDelete && (written[key.place] || o.at > passed[o.key]) {
			continue
		}
		if e := earliest[key]; e == nil || o.call < e.call {
			earliest[key] = o
		}
	}
	matters := map[*rowOp]bool{}
	for _, o := range earliest {
		matters[o] = true
	}
	return matters
}

// unexplained is what to say of rows for which there is no order: how far one was found, and what does not fit.
func (r *register) unexplained(info porcupine.LinearizationInfo) (found []Violation) {
	matters, placed, states, far := r.mattering(), map[*rowOp]bool{}, map[string]any{}, map[string]int{}
	for _, orders := range info.PartialLinearizationsOperations() {
		var best []porcupine.Operation
		for _, order := range orders {
			if len(order) > len(best) {
				best = order
			}
		}
		var state any = rowState{}
		for _, op := range best {
			o, _ := op.Input.(*rowOp)
			placed[o] = true
			_, state = leaseRegister.Step(state, o, nil)
			states[o.key], far[o.key] = state, far[o.key]+1
		}
	}
	left, event := map[string][]string{}, map[string]int{}
	for _, o := range r.ops {
		if placed[o] || o.outcome == void || o.outcome == unanswered && !matters[o] || !isLease(o.key) {
			continue
		}
		if left[o.key] = append(left[o.key], o.String()); event[o.key] == 0 {
			event[o.key] = o.event
		}
	}
	for key, ops := range left {
		found = append(found, Violation{
			Promise: "linearizable", Lease: key, event: event[key],
			Text: fmt.Sprintf("no order of the writes and reads of this row explains what the workers were answered: %d operations lead to %v, and none of the others can come next: %s",
				far[key], states[key], strings.Join(ops[:min(4, len(ops))], "; ")),
		})
	}
	return found
}

package emulator

import (
	"sync"
	"sync/atomic"
	"time"
)

// Event is one request with its answer, as [Server.Observe] hands it out. The byte slices must not be changed.
type Event struct {
	Client    string
	Service   Service
	Operation string
	At        time.Time // when the request arrived
	Duration  time.Duration
	Request   []byte // as the client sent it: JSON, or CBOR if Kinesis was asked in that
	Status    int    // HTTP status; 0 if the client got none, because a fault or its own context ended the request
	Code      string // the error's name, "" for a success
	Response  []byte // what the service answered in the same encoding, also if a fault kept it from the client; nil for a subscription
}

type observers struct {
	mu   sync.Mutex // serialises changes; readers take the slice as it is
	list atomic.Pointer[[]*func(Event)]
}

func (o *observers) notify(e Event) {
	if list := o.list.Load(); list != nil {
		for _, f := range *list {
			(*f)(e)
		}
	}
}

// Observe calls f after each request, on the goroutine that served it and before the client has the whole answer; f must
// be safe for concurrent use and must not wait. The function that it returns ends it; a call of f may then still be under
// way.
func (s *Server) Observe(f func(Event)) (remove func()) {
	p := &f
	s.observers.change(func(list []*func(Event)) []*func(Event) { return append(list, p) })
	return func() {
		s.observers.change(func(list []*func(Event)) []*func(Event) {
			for i, have := range list {
				if have == p {
					return append(list[:i], list[i+1:]...)
				}
			}
			return list
		})
	}
}

func (o *observers) change(f func(copied []*func(Event)) []*func(Event)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*func(Event)
	if old := o.list.Load(); old != nil {
		list = append(list, *old...)
	}
	list = f(list)
	o.list.Store(&list)
}

// any tells whether somebody observes.
func (o *observers) any() bool {
	list := o.list.Load()
	return list != nil && len(*list) > 0
}

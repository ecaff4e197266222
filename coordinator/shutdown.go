package coordinator

// State is where a worker is in its life.
type State int

// The states of a worker, in the order in which it passes them.
const (
	New State = iota
	Starting
	Running
	Draining
	Releasing
	Stopped
)

func (s State) String() string {
	return [...]string{"New", "Starting", "Running", "Draining", "Releasing", "Stopped"}[s]
}

// event is what moves a worker from one state to the next.
type event int

const (
	evRun      event = iota // Run was called
	evStarted               // the table is usable and the loops run
	evStop                  // Run's context ended, or Shutdown was called
	evFailed                // something that cannot be mended by trying again
	evDrained               // no consumer is left, or the grace is over
	evReleased              // no lease is left
)

func (e event) String() string {
	return [...]string{"run", "started", "stop", "failed", "drained", "released"}[e]
}

// next is the worker's state machine. An event that means nothing in a state leaves it as it is: a second stop, a failure
// while already draining.
func next(s State, e event) State {
	switch {
	case s == New && e == evRun:
		return Starting
	case s == New && e == evStop:
		return Stopped
	case s == Starting && e == evStarted:
		return Running
	case (s == Starting || s == Running) && (e == evStop || e == evFailed):
		return Draining
	case s == Draining && e == evDrained:
		return Releasing
	case s == Releasing && e == evReleased:
		return Stopped
	default:
		return s
	}
}

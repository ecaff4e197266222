package row

// guard is something that the design needs. A model without one is a broken variant: exploring it has to end with a broken
// rule, or the guard is not needed for what the model can see.
type guard uint8

const (
	nothing guard = iota
	checkpointsByCounter
	renewsByCounter
	releasesByCounter
	completesByCounter
	takesByCounter
	deletesByCounter
	asksByNonce
	asksSpeaking
	asksUnended
	releasesUnmarked
	namesIncarnation
	knowsByNonce
	knowsOwner
	knowsLaterWrites
	keepsPosition
	markNeedsTenure
	keepsHandoffTo
	regainsActual
	firstRenewal
	waitsAtFirstSight
	watchesCounter
	stampsBeforeSending
	stampsEarliest
	remembersRepetitions
	renewsAfterSuspend
	distrustsOldReplies
	drainsBeforeStart
	handledOnly
)

var guardNames = [...]string{
	nothing:              "",
	checkpointsByCounter: "a checkpoint is conditioned on the counter",
	renewsByCounter:      "a renewal is conditioned on the counter",
	releasesByCounter:    "a release is conditioned on the counter",
	completesByCounter:   "a completion is conditioned on the counter",
	takesByCounter:       "a take is conditioned on the counter",
	deletesByCounter:     "a deletion is conditioned on counter and checkpoint",
	asksByNonce:          "an ask is conditioned on the tenure's nonce",
	asksSpeaking:         "an ask requires that the tenure speaks",
	asksUnended:          "an ask requires that the shard has not ended",
	releasesUnmarked:     "a release requires that nobody has asked",
	namesIncarnation:     "conditions name the nonce beside the counter",
	knowsByNonce:         "one's own lost write is known by its nonce, not by owner and counter",
	knowsOwner:           "a row with one's nonce is one's own only while one is its actual owner",
	knowsLaterWrites:     "one's own lost write is known whatever the counter and the checkpoint are by now",
	keepsPosition:        "a checkpoint that is repeated never moves the row's back",
	markNeedsTenure:      "a mark is live only under a tenure that speaks, of the worker that it names",
	keepsHandoffTo:       "a completion leaves handoffTo: in transit",
	regainsActual:        "a restart regains what its id actually owns, not what leaseOwner says",
	firstRenewal:         "after a hand-off the new owner renews before it acts",
	waitsAtFirstSight:    "a row seen for the first time is never stale",
	watchesCounter:       "a counter that has moved starts the failover time anew",
	stampsBeforeSending:  "a lease counts from before the request was sent",
	stampsEarliest:       "a lost write that is found later counts from when it was first asked for",
	remembersRepetitions: "a repetition without an answer may have landed, too",
	renewsAfterSuspend:   "after a suspend a lease is renewed; that the row is unchanged proves nothing",
	distrustsOldReplies:  "an answer to what was sent before a suspend extends nothing",
	drainsBeforeStart:    "a consumer starts only after that of the tenure before has ended",
	handledOnly:          "a checkpoint covers handled records only",
}

func (g guard) String() string { return guardNames[g] }

// ignoresCounter reports whether the condition of a request does not name the counter, because that guard is missing.
func (m *Model) ignoresCounter(o *Op) bool {
	switch o.Kind {
	case opCheckpoint:
		return m.without == checkpointsByCounter
	case opRenew:
		return m.without == renewsByCounter
	case opRelease:
		return m.without == releasesByCounter
	case opComplete:
		return m.without == completesByCounter
	case opTake:
		return m.without == takesByCounter
	case opDelete:
		return m.without == deletesByCounter
	}
	return false
}

// weaken changes what a row is taken for as the missing guard says.
func (m *Model) weaken(f *fact, r *Row) {
	if m.without == markNeedsTenure && r.CkptOwner != 0 {
		f.live, f.actual = true, r.CkptOwner
	}
}

package config

// Chain returns Hooks that call each of hs in order; nil ones are left out. Where none of hs has a hook, the result has none
// either, so that nothing is spent on an event that nobody wants. Later changes to hs do not show.
func Chain(hs ...*Hooks) *Hooks {
	return &Hooks{
		WorkerStarted:     chain(hs, func(h *Hooks) func(WorkerEvent) { return h.WorkerStarted }),
		WorkerStopped:     chain(hs, func(h *Hooks) func(WorkerEvent) { return h.WorkerStopped }),
		LeaseCreated:      chain(hs, func(h *Hooks) func(LeaseEvent) { return h.LeaseCreated }),
		LeaseTaken:        chain(hs, func(h *Hooks) func(LeaseEvent) { return h.LeaseTaken }),
		LeaseRenewed:      chain(hs, func(h *Hooks) func(LeaseEvent) { return h.LeaseRenewed }),
		LeaseLost:         chain(hs, func(h *Hooks) func(LeaseEvent) { return h.LeaseLost }),
		LeaseReleased:     chain(hs, func(h *Hooks) func(LeaseEvent) { return h.LeaseReleased }),
		LeaseDeleted:      chain(hs, func(h *Hooks) func(LeaseEvent) { return h.LeaseDeleted }),
		LeaseSkipped:      chain(hs, func(h *Hooks) func(LeaseEvent) { return h.LeaseSkipped }),
		CheckpointWritten: chain(hs, func(h *Hooks) func(CheckpointEvent) { return h.CheckpointWritten }),
		CheckpointRefused: chain(hs, func(h *Hooks) func(CheckpointEvent) { return h.CheckpointRefused }),
		Subscribed:        chain(hs, func(h *Hooks) func(SubscribeEvent) { return h.Subscribed }),
		Fetched:           chain(hs, func(h *Hooks) func(FetchEvent) { return h.Fetched }),
		Trimmed:           chain(hs, func(h *Hooks) func(TrimmedEvent) { return h.Trimmed }),
		Deaggregated:      chain(hs, func(h *Hooks) func(DeaggregateEvent) { return h.Deaggregated }),
		BatchProcessed:    chain(hs, func(h *Hooks) func(BatchEvent) { return h.BatchProcessed }),
		Retried:           chain(hs, func(h *Hooks) func(RetryEvent) { return h.Retried }),
		Panicked:          chain(hs, func(h *Hooks) func(PanicEvent) { return h.Panicked }),
		ShardEnded:        chain(hs, func(h *Hooks) func(LeaseEvent) { return h.ShardEnded }),
		Synced:            chain(hs, func(h *Hooks) func(SyncEvent) { return h.Synced }),
		StateChanged:      chain(hs, func(h *Hooks) func(StateEvent) { return h.StateChanged }),
		WorkerLooked:      chain(hs, func(h *Hooks) func(LookEvent) { return h.WorkerLooked }),
		FailoverDiffers:   chain(hs, func(h *Hooks) func(FailoverEvent) { return h.FailoverDiffers }),
		StreamAdded:       chain(hs, func(h *Hooks) func(StreamEvent) { return h.StreamAdded }),
		StreamFaulty:      chain(hs, func(h *Hooks) func(StreamEvent) { return h.StreamFaulty }),
		StreamRemoved:     chain(hs, func(h *Hooks) func(StreamEvent) { return h.StreamRemoved }),
	}
}

func chain[E any](hs []*Hooks, pick func(*Hooks) func(E)) func(E) {
	var calls []func(E)
	for _, h := range hs {
		if h == nil {
			continue
		}
		if call := pick(h); call != nil {
			calls = append(calls, call)
		}
	}
	switch len(calls) {
	case 0:
		return nil
	case 1:
		return calls[0]
	}
	return func(e E) {
		for _, call := range calls {
			call(e)
		}
	}
}

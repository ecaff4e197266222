package config

import "log/slog"

// warnFromAttempt is the failure in a row from which on a repetition is a warning: one or two are a busy table or stream.
const warnFromAttempt = 3

// warns reports whether a repetition after so many failures in a row is warned about: the 3rd, 6th, 12th … is, so that an outage of
// minutes does not fill the log.
func warns(attempt int) bool {
	n := attempt / warnFromAttempt
	return n > 0 && attempt%warnFromAttempt == 0 && n&(n-1) == 0
}

// SlogHooks returns Hooks that write to log, nothing if it is nil. Levels: debug is what a healthy worker does all the time,
// lost races included, so that a healthy idle worker writes nothing above it; info is what changes who reads what, and the
// first two failures in a row of something that is repeated (of the others the 3rd, 6th, 12th … is a warning); warn means look soon; error means that somebody must act. The message says
// what happened and is constant; facts are attributes: worker, lease, and others by event.
func SlogHooks(log *slog.Logger) *Hooks {
	if log == nil {
		return &Hooks{}
	}
	h := &Hooks{}
	logWorker(h, log)
	logLeases(h, log)
	logRecords(h, log)
	return h
}

func logWorker(h *Hooks, log *slog.Logger) {
	h.WorkerStarted = func(e WorkerEvent) { log.Info("worker started", "worker", e.Worker) }
	h.WorkerStopped = func(e WorkerEvent) {
		if e.Err != nil {
			log.Error("worker stopped", "worker", e.Worker, "error", e.Err)
			return
		}
		log.Info("worker stopped", "worker", e.Worker)
	}
	h.WorkerLooked = func(e LookEvent) {
		log.Debug("lease table read", "worker", e.Worker, "leases", e.Leases, "workers", e.Workers, "held", e.Held,
			"target", e.Target, "elapsed", e.Elapsed, "error", e.Err)
	}
	h.FailoverDiffers = func(e FailoverEvent) {
		at := log.Info
		if e.Java {
			at = log.Warn
		}
		at("another worker's FailoverTime differs", "worker", e.Worker, "peer", e.Peer, "java", e.Java, "own", e.Own, "peers", e.Peers)
	}
	h.Synced = func(e SyncEvent) {
		at := log.Debug
		switch {
		case e.Err != nil && e.Attempt <= 1: // of those that follow Retried tells
			at = log.Warn
		case e.Created > 0:
			at = log.Info
		}
		at("leases compared with shards", "worker", e.Worker, "stream", e.Stream, "shards", e.Shards, "leases", e.Leases,
			"created", e.Created, "elapsed", e.Elapsed, "error", e.Err)
	}
	h.StreamAdded = func(e StreamEvent) {
		log.Info("stream to read", "worker", e.Worker, "stream", e.Stream, "identifier", e.Identifier)
	}
	h.StreamFaulty = func(e StreamEvent) {
		log.Warn("stream is not read: its configuration has a fault", "worker", e.Worker, "stream", e.Stream, "identifier", e.Identifier, "error", e.Err)
	}
	h.StreamRemoved = func(e StreamEvent) {
		log.Info("stream not to be read any more", "worker", e.Worker, "stream", e.Stream, "identifier", e.Identifier)
	}
	h.Retried = func(e RetryEvent) {
		at := log.Info
		switch {
		case warns(e.Attempt):
			at = log.Warn
		case e.Attempt > warnFromAttempt:
			at = log.Debug
		}
		at("will be tried again", "worker", e.Worker, "lease", e.LeaseKey, "what", e.What, "attempt", e.Attempt,
			"wait", e.Wait, "error", e.Err)
	}
}

func logLeases(h *Hooks, log *slog.Logger) {
	h.LeaseCreated = func(e LeaseEvent) { log.Info("lease created", "worker", e.Worker, "lease", e.LeaseKey) }
	h.LeaseTaken = func(e LeaseEvent) {
		log.Info("lease taken", "worker", e.Worker, "lease", e.LeaseKey, "from", e.From, "counter", e.Counter, "token", e.Token)
	}
	h.LeaseRenewed = func(e LeaseEvent) {
		log.Debug("lease renewed", "worker", e.Worker, "lease", e.LeaseKey, "counter", e.Counter, "elapsed", e.Elapsed)
	}
	// Another worker takes leases when it joins: that is no reason to look. What makes a worker lose leases that it should
	// keep is warned about as a repeated renewal.
	h.LeaseLost = func(e LeaseEvent) {
		log.Info("lease lost", "worker", e.Worker, "lease", e.LeaseKey, "counter", e.Counter, "token", e.Token, "error", e.Err)
	}
	h.LeaseReleased = func(e LeaseEvent) {
		if e.To != "" {
			log.Info("lease handed over", "worker", e.Worker, "lease", e.LeaseKey, "to", e.To, "counter", e.Counter, "token", e.Token)
			return
		}
		log.Info("lease released", "worker", e.Worker, "lease", e.LeaseKey, "counter", e.Counter, "token", e.Token)
	}
	h.LeaseDeleted = func(e LeaseEvent) {
		log.Info("lease deleted", "worker", e.Worker, "lease", e.LeaseKey, "counter", e.Counter, "reason", e.Reason)
	}
	h.LeaseSkipped = func(e LeaseEvent) {
		log.Warn("row is no lease", "worker", e.Worker, "lease", e.LeaseKey, "error", e.Err)
	}
	h.ShardEnded = func(e LeaseEvent) {
		log.Info("shard ended", "worker", e.Worker, "lease", e.LeaseKey, "counter", e.Counter, "token", e.Token)
	}
	h.StateChanged = func(e StateEvent) {
		log.Debug("consumer changed state", "worker", e.Worker, "lease", e.LeaseKey, "from", e.From, "to", e.To)
	}
}

func logRecords(h *Hooks, log *slog.Logger) {
	h.CheckpointWritten = func(e CheckpointEvent) {
		log.Debug("checkpoint written", "worker", e.Worker, "lease", e.LeaseKey, "sequence_number", e.SequenceNumber,
			"sub_sequence_number", e.SubSequenceNumber, "pending", e.Pending, "elapsed", e.Elapsed)
	}
	h.CheckpointRefused = func(e CheckpointEvent) {
		log.Warn("checkpoint refused", "worker", e.Worker, "lease", e.LeaseKey, "sequence_number", e.SequenceNumber,
			"sub_sequence_number", e.SubSequenceNumber, "pending", e.Pending, "elapsed", e.Elapsed, "error", e.Err)
	}
	h.Fetched = func(e FetchEvent) {
		log.Debug("records fetched", "worker", e.Worker, "lease", e.LeaseKey, "records", e.Records, "bytes", e.Bytes,
			"behind_millis", e.MillisBehindLatest, "elapsed", e.Elapsed, "error", e.Err)
	}
	h.Subscribed = func(e SubscribeEvent) {
		log.Debug("subscribed to the shard", "worker", e.Worker, "lease", e.LeaseKey, "consumer", e.Consumer, "position", e.Position,
			"sequence_number", e.SequenceNumber, "elapsed", e.Elapsed, "error", e.Err)
	}
	h.Trimmed = func(e TrimmedEvent) {
		args := []any{"worker", e.Worker, "lease", e.LeaseKey, "stream", e.Stream, "shard", e.ShardID, "position", e.Position, "first", e.First}
		if !e.FirstArrival.IsZero() {
			args = append(args, "first_arrival", e.FirstArrival)
		}
		log.Warn("records may be lost: the stream does not keep the position any more from which the shard was to be read on",
			append(args, "gone", e.Gone, "failed", e.Failed)...)
	}
	h.Deaggregated = func(e DeaggregateEvent) {
		if e.Damaged > 0 {
			log.Warn("records that begin like aggregates are handed over as they came", "worker", e.Worker, "lease", e.LeaseKey,
				"records", e.Damaged, "error", e.Err)
		}
		log.Debug("aggregates taken apart", "worker", e.Worker, "lease", e.LeaseKey, "aggregates", e.Aggregates, "records", e.Users,
			"outside", e.Outside, "damaged", e.Damaged)
	}
	h.BatchProcessed = func(e BatchEvent) {
		log.Debug("batch processed", "worker", e.Worker, "lease", e.LeaseKey, "records", e.Records,
			"behind_millis", e.MillisBehindLatest, "elapsed", e.Elapsed, "error", e.Err)
	}
	h.Panicked = func(e PanicEvent) {
		log.Error("user code panicked", "worker", e.Worker, "lease", e.LeaseKey, "what", e.What, "value", e.Value,
			"stack", string(e.Stack))
	}
}

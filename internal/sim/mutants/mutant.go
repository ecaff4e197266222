package main

// mutant is one guard of the library, broken in one place. The suite named must not pass with it.
type mutant struct {
	name string // what is broken, in a few words
	// claim is the promise that falls with it: S1–S8, L1–L5 and O8 are those of docs/guarantees.md.
	claim    string
	file     string // of the library, from the module's root
	old, new string // old occurs once in the file
	pkg, run string // the cheapest suite that sees it: go test -run run pkg
}

// mutants are the guards that the design calls essential. A new guard adds one.
var mutants = []mutant{
	{
		name: "writes are conditioned on the owner, not on the counter", claim: "S1",
		file: "leases/expression.go", old: "e.equal(number(seen.Counter), attrCounter)", new: "e.exists(attrCounter)",
		pkg: "./internal/leasetest", run: "TestTable_onTheEmulator",
	},
	{
		name: "a checkpoint is conditioned on the tenure, not on the counter", claim: "S1",
		file: "leases/write.go", old: "\t\te.unchanged(from)\n", new: "\t\tif op.what == \"checkpoint lease\" {\n\t\t\te.equal(str(me.Nonce), attrTenure, tenureNonce)\n\t\t} else {\n\t\t\te.unchanged(from)\n\t\t}\n",
		pkg: "./leases", run: "TestCore_keeps",
	},
	{
		name: "a consumer that waits for its parents goes on when its lease is lost", claim: "L1",
		file: "internal/states/states.go", old: "\treturn p.shutDown(LeaseLost, Leave)\n", new: "\treturn p\n",
		pkg: "./leases", run: "TestCore_keeps",
	},
	{
		name: "writes are conditioned on the counter alone, not on the nonce", claim: "S1",
		file: "leases/expression.go", old: "case seen.Tenure != nil:", new: "case seen.Tenure != nil && seen.Counter < 0:",
		pkg: "./leases", run: "TestHeld_writesNothingToARowMadeAnew",
	},
	{
		name: "owner and counter are taken for one's own write that landed", claim: "S1",
		file: "leases/tenure.go", old: "return row.TenureSpeaks() && row.Tenure.Nonce == t.Nonce && row.ActualOwner() == t.Worker", new: "return row.ActualOwner() == t.Worker",
		pkg: "./leases", run: "TestRenewer_twoProcessesWithOneID",
	},
	{
		name: "a tenure is believed after a Java worker's write", claim: "S1",
		file: "leases/lease.go", old: "return l.Tenure != nil && l.Tenure.At == l.Counter", new: "return l.Tenure != nil",
		pkg: "./internal/leasetest", run: "TestTable_onTheEmulator",
	},
	{
		name: "a failed condition extends the lease", claim: "S1",
		file: "leases/write.go", old: "return Written{}, op.lost(unlike(row, from))", new: "return Written{Lease: row}, nil",
		pkg: "./leases", run: "TestHeld_|TestRenewer_",
	},
	{
		name: "a reply after the deadline brings the lease back", claim: "S1",
		file: "leases/renewing.go", old: "if r.overdue(h, now) { // a reply", new: "if err != nil && r.overdue(h, now) { // a reply",
		pkg: "./leases", run: "TestHeld_",
	},
	{
		name: "the owner may act for the whole failover time, without a margin", claim: "S1",
		file: "leases/term.go", old: "return max(failover/20, 50*time.Millisecond)", new: "return -failover",
		pkg: "./leases", run: "TestHeld_endsAtItsDeadline|TestHeld_looksAtTheClockItself|TestHeld_aReply",
	},
	{
		name: "the lease counts from the reply, not from the request", claim: "S1",
		file: "leases/term.go", old: "counts, known := asked, true", new: "counts, known := now, true",
		pkg: "./leases", run: "TestHeld_|TestRenewer_",
	},
	{
		name: "a processor is called without asking the lease", claim: "S1",
		file: "leases/held.go", old: "if h.renewer.overdue(h, now) {", new: "if h.renewer.overdue(h, stamp{}) {",
		pkg: "./leases", run: "TestHeld_looksAtTheClockItself",
	},
	{
		name: "after a suspend the lease is used without a renewal", claim: "S1",
		file: "leases/held.go", old: "return !h.renewer.doubt(h, now), nil", new: "return true, nil",
		pkg: "./leases", run: "TestHeld_renewsAfterASuspend",
	},
	{
		name: "a lease is used after the time to hand it over", claim: "S1",
		file: "leases/held.go", old: "if learnt == nil || ", new: "if true || learnt == nil || ",
		pkg: "./leases", run: "TestHeld_isNotUsableOnce",
	},
	{
		name: "the time to hand a lease over stands while the machine sleeps", claim: "S1",
		file: "leases/term.go", old: "return max(now.mono.Sub(s.mono), now.wall.Sub(s.wall))", new: "return now.mono.Sub(s.mono)",
		pkg: "./leases", run: "TestHeld_countsASuspend",
	},
	{
		name: "a namesake lives although it was seen to move before an outage only", claim: "L1",
		file: "leases/namesake.go", old: "other.read.Sub(other.since) >=", new: "at.Sub(other.since) >=",
		pkg: "./leases", run: "TestTaker_goesOnAfterANamesake",
	},
	{
		name: "a new tenure uses the nonce of the last one", claim: "S1",
		file: "leases/nonce.go", old: "strconv.FormatUint(n.last.Add(1), 36)", new: "strconv.FormatUint(n.last.Load(), 36)",
		pkg: "./leases", run: "TestNonces_",
	},
	{
		name: "sequence numbers are compared as text", claim: "S2",
		file: "checkpoint/position.go", old: "c = compareDigits(x, y)", new: "c = strings.Compare(x, y)",
		pkg: "./checkpoint", run: "TestCompare_",
	},
	{
		name: "the smaller of two checkpoints may follow the larger", claim: "S2",
		file: "checkpoint/tracker.go", old: "case at.Compare(t.floor) < 0:", new: "case at.Compare(t.floor) < 0 && t.ended:",
		pkg: "./checkpoint", run: "TestConcurrent_|TestKCL_",
	},
	{
		name: "a checkpoint beyond what was delivered is accepted", claim: "S2",
		file: "checkpoint/tracker.go", old: "case at.Compare(t.delivered) > 0:", new: "case at.Compare(t.delivered) > 0 && t.ended:",
		pkg: "./checkpoint", run: "TestKCL_|TestAnySequence",
	},
	{
		name: "a checkpoint that failed leaves the floor where it was", claim: "S2",
		file: "checkpoint/tracker.go", old: "\t\tt.floor = at\n", new: "",
		pkg: "./checkpoint", run: "TestFailedWrite",
	},
	{
		name: "a row's own checkpoint is not compared after a lost reply", claim: "S2",
		file: "leases/write.go", old: "if u.Checkpoint != nil && u.Checkpoint.Compare(row.Checkpoint) < 0 {", new: "if false {",
		pkg: "./leases", run: "TestHeld_|TestTable_",
	},
	{
		name: "a checkpoint covers the batch that failed", claim: "S3",
		file: "checkpoint/tracker.go", old: "if handled && t.inHand.Compare(t.good) > 0 {", new: "if t.inHand.Compare(t.good) > 0 {",
		pkg: "./checkpoint", run: "TestCheckpoint_",
	},
	{
		name: "a shard is read from after its checkpoint, so that the rest of an aggregate is lost", claim: "S3",
		file: "retrieval/place.go", old: "types.ShardIteratorTypeAtSequenceNumber", new: "types.ShardIteratorTypeAfterSequenceNumber",
		pkg: "./retrieval", run: "TestPolling_",
	},
	{
		name: "an iterator that expired is made anew at the tip", claim: "S3",
		file: "retrieval/place.go", old: "case p.last != \"\":\n\t\tin.ShardIteratorType = types.ShardIteratorTypeAfterSequenceNumber", new: "case p.last != \"\":\n\t\tin.ShardIteratorType = types.ShardIteratorTypeLatest",
		pkg: "./retrieval", run: "TestPolling_remakes",
	},
	{
		name: "a shard that left the stream before it was read is finished without a word", claim: "O8",
		file: "retrieval/trouble.go", old: "\t\tif err := r.skip(config.TrimmedEvent{Gone: true}); err != nil {\n\t\t\treturn false, err\n\t\t}\n", new: "",
		pkg: "./retrieval", run: "TestTrimmed_aShardThatLeft",
	},
	{
		name: "of a table's stream, what was trimmed behind the checkpoint is not looked for", claim: "O8",
		file: "retrieval/trimmed.go", old: "|| lineage && r.place.last == \"\"", new: "|| lineage && false",
		pkg: "./retrieval/dynamostreams", run: "TestSource_tellsOf",
	},
	{
		name: "an old list of a table's stream gives leases to shards that were read to their end", claim: "S6",
		file: "shardsync/lineage.go", old: "!l.Finished() && id > youngest {", new: "!l.Finished() && id > youngest && len(shards) == 0 {",
		pkg: "./shardsync", run: "TestCurrent",
	},
	{
		name: "a child waits for one of its two parents only", claim: "S4",
		file: "shardsync/shardend.go", old: "case !parent.Finished():\n\t\t\treturn false, nil", new: "case !parent.Finished() && id == l.ParentShardIDs[0]:\n\t\t\treturn false, nil",
		pkg: "./shardsync", run: "TestParentsEnded",
	},
	{
		name: "a parent without a row counts as finished", claim: "S4",
		file: "shardsync/shardend.go", old: "if len(absent) == 0 || l.Checkpoint != checkpoint.TrimHorizon {", new: "if len(absent) >= 0 || l.Checkpoint != checkpoint.TrimHorizon {",
		pkg: "./shardsync", run: "TestParentsEnded",
	},
	{
		name: "a parent names its children before they have rows", claim: "S5",
		file: "shardsync/shardend.go", old: "\t\tif err := s.createChild(ctx, d, parent, child); err != nil {\n\t\t\treturn err\n\t\t}\n", new: "\t\tdefer func() { _ = s.createChild(ctx, d, parent, child) }()\n",
		pkg: "./shardsync", run: "TestEndShard",
	},
	{
		name: "a shard ends although its children's rows could not be made", claim: "S5",
		file: "processor/steps.go", old: "c.retry(\"record the end of the shard\", err)\n\t\treturn states.EndFailed", new: "return states.EndRecorded",
		pkg: "./processor", run: "TestConsumer_",
	},
	{
		name: "a row goes although a child has not begun", claim: "S6",
		file: "cleanup/decide.go", old: "if !begun(children[i]) {", new: "if i > 0 && !begun(children[i]) {",
		pkg: "./cleanup", run: "TestDecide|TestPass",
	},
	{
		name: "a row goes although a child has no row", claim: "S6",
		file: "cleanup/decide.go", old: "return Verdict{Reason: ChildMissing, About: id}", new: "continue",
		pkg: "./cleanup", run: "TestDecide|TestPass",
	},
	{
		name: "a row goes although its shard was not read to its end", claim: "S6",
		file: "cleanup/decide.go", old: "case !l.Finished():", new: "case !l.Finished() && !known.Gone:",
		pkg: "./cleanup", run: "TestDecide|TestPass|TestRun",
	},
	{
		name: "deletion believes the listing and not the table", claim: "S6",
		file: "cleanup/pass.go", old: "if v = Decide(row, parents, children, known); !v.Delete {", new: "if v = Decide(row, parents, children, known); !v.Delete && v.Reason == Unfinished {",
		pkg: "./cleanup", run: "TestPass",
	},
	{
		name: "a row goes as soon as its shard is finished, and a late request makes it again", claim: "S6",
		file: "cleanup/manager.go", old: "return !known || now.Sub(first) < m.cfg.KeepFinished", new: "return !known || now.Sub(first) < 0",
		pkg: "./cleanup", run: "TestRun_aRequestThat",
	},
	{
		name: "a row that was seen finished once is remembered for ever", claim: "S6",
		file: "cleanup/manager.go", old: "var since map[string]time.Time", new: "since := m.since",
		pkg: "./cleanup", run: "TestWatch_",
	},
	{
		name: "a decision counts from after the look at the table", claim: "S6",
		file: "shardsync/syncer.go", old: "\t\tif err := s.decide(ctx, &d, have, ev)", new: "\t\td = decisionAt(loop.ClockOf(ctx))\n\t\tif err := s.decide(ctx, &d, have, ev)",
		pkg: "./shardsync", run: "TestSync_createsNothing",
	},
	{
		name: "a child's row is made however old the proof of the lease is", claim: "S6",
		file: "shardsync/create.go", old: "if d.stale() {\n\t\treturn false, errStale", new: "if d.stale() && len(d.missing) > 0 {\n\t\treturn false, errStale",
		pkg: "./shardsync", run: "TestEndShard_createsNothing",
	},
	{
		name: "a row is created over one that exists", claim: "S7",
		file: "leases/rows.go", old: "attribute_not_exists(#k)", new: "attribute_not_exists(#k) OR attribute_exists(#k)",
		pkg: "./shardsync", run: "TestLeaders_|TestEndShard_keeps",
	},
	{
		name: "ancestors of leased shards get rows", claim: "S7",
		file: "shardsync/determine.go", old: "if p, known := g.index[id]; known && !above[p] {", new: "if p, known := g.index[id]; known && !above[p] && false {",
		pkg: "./shardsync", run: "TestDetermineNewLeases",
	},
	{
		name: "a new consumer starts beside the one that still drains", claim: "S8",
		file: "coordinator/tenure.go", old: "case <-before.done.Done():", new: "case <-before.done.Done():\n\tdefault:",
		pkg: "./coordinator", run: "TestTenure_",
	},
	{
		name: "an owner seen for the first time counts as dead", claim: "S1, L3",
		file: "leases/view.go", old: "case sawMoved:\n\t\treturn Fresh", new: "case sawMoved:\n\t\tif k == Unseen {\n\t\t\treturn Stale\n\t\t}\n\t\treturn Fresh",
		pkg: "./leases", run: "TestView_|TestTaker_",
	},
	{
		name: "an old replica's counter starts the owner's time again", claim: "L1",
		file: "leases/view.go", old: "case l.Counter < old.Lease.Counter && !exact && at.Sub(old.Read) <= old.failover(v.failover):", new: "case l.Counter < old.Lease.Counter && !exact && at.Before(old.Since):",
		pkg: "./leases", run: "TestView_",
	},
	{
		name: "takeover waits for two failover times", claim: "L1",
		file: "leases/view.go", old: "return s.Since.Add(s.failover(own))", new: "return s.Since.Add(2 * s.failover(own))",
		pkg: "./leases", run: "TestView_|TestTaker_|TestPlan_allOf",
	},
	{
		name: "an observer waits for its own failover time only", claim: "S1",
		file: "leases/view.go", old: "return max(own, s.Lease.Tenure.Failover)", new: "return own",
		pkg: "./leases", run: "TestView_",
	},
	{
		name: "an ask reaches a tenure that a Java worker has ended", claim: "S1, L1",
		file: "leases/handoff.go", old: "e.equalPaths([]string{attrTenure, tenureAt}, attrCounter)", new: "e.exists(attrCounter)",
		pkg: "./internal/leasetest", run: "TestTable_onTheEmulator",
	},
	{
		name: "a second asker overwrites the first one's mark", claim: "L1",
		file: "leases/handoff.go", old: "e.absent(attrCheckpointOwner)\n\te.differs", new: "e.differs",
		pkg: "./internal/leasetest", run: "TestTable_onTheEmulator",
	},
	{
		name: "a release overlooks that a peer has asked", claim: "L1",
		file: "leases/write.go", old: "\t\t\t\te.absent(attrCheckpointOwner)\n\t\t\t\treturn\n", new: "\t\t\t\treturn\n",
		pkg: "./internal/leasetest", run: "TestTable_onTheEmulator",
	},
	{
		name: "who was asked hands over while its processor still runs", claim: "S8",
		file: "coordinator/tenure.go", old: "if !c.consume(ctx, e) {\n\t\treturn false\n\t}\n", new: "go c.consume(ctx, e)\n\t<-e.stop.Done()\n",
		pkg: ".", run: "TestHandoff_cancelsAProcessor",
	},
	{
		name: "a worker without a lease asks for one that the strategy means for another", claim: "L3",
		file: "leases/balance.go", old: "rank(best) == 0 && !p.keeps(best)", new: "rank(best) == 0 && false",
		pkg: "./leases", run: "TestPlan_comesToRest",
	},
	{
		name: "the plan moves leases of a balanced fleet", claim: "L3",
		file: "leases/strategy.go", old: "surplus[w] = max(0, -c.room[w])", new: "surplus[w] = max(0, 1-c.room[w])",
		pkg: "./leases", run: "TestStrategies_|TestPlan_allOf",
	},
	{
		name: "Each skips the record that failed", claim: "S3",
		file: "processor/each.go", old: "\t\t\treturn err\n\t\t}\n\t\t// Kept", new: "\t\t}\n\t\t// Kept",
		pkg: "./processor", run: "TestEach_",
	},
	{
		name: "a shard that a worker is told to stop is checkpointed as fetched, not as handled", claim: "S3",
		file: "processor/steps.go", old: "c.tracker.EndBatch(err == nil)", new: "c.tracker.EndBatch(true)",
		pkg: "./processor", run: "TestConsumer_",
	},
	{
		name: "the pin of LATEST is lost with the parents", claim: "S3",
		file: "shardsync/shardend.go", old: "start := position{checkpoint.TrimHorizon, parent.StartAtMillis}", new: "start := position{checkpoint.TrimHorizon, 0}",
		pkg: "./shardsync", run: "TestEndShard|TestPin|TestLatest",
	},
	{
		name: "a later Go take moves the pin", claim: "S3",
		file: "leases/write.go", old: "e.setIfAbsent(attrStartAt, number(seen.StartAtMillis))", new: "e.set(attrStartAt, number(seen.StartAtMillis))",
		pkg: "./internal/leasetest", run: "TestTable_onTheEmulator",
	},
	{
		name: "the first renewal after a hand-off leaves the mark", claim: "L1",
		file: "leases/write.go", old: "\t\t\t\te.absent(attrCheckpointOwner)\n\t\t\t\te.remove(attrHandoffTo)\n", new: "",
		pkg: "./internal/leasetest", run: "TestTable_onTheEmulator",
	},
	{
		name: "a leader whose leases are stale still leads", claim: "L5",
		file: "coordinator/leader.go", old: "(row.Knowledge != leases.Stale || owner == d.me)", new: "row.Knowledge != leases.Unseen",
		pkg: "./coordinator", run: "TestDeterministicLeader",
	},
	{
		name: "a page without a next iterator ends the shard", claim: "S3, S5",
		file: "retrieval/trouble.go", old: "childrenOf(children, r.start.ShardID); len(out) > 0", new: "childrenOf(children, r.start.ShardID); len(out) >= 0",
		pkg: "./retrieval", run: "TestPolling_",
	},
	{
		name: "a repetition that may have landed is forgotten", claim: "S1",
		file: "leases/term.go", old: "if r == ByEarlierCall {\n\t\tx.unsure = &asked", new: "if false {\n\t\tx.unsure = &asked",
		pkg: "./leases", run: "TestHeld_doesNotCountFromACallAfterTheWriteThatPeersSaw",
	},
	{
		name: "a throttled table serves whoever asks, not what keeps leases first", claim: "L1",
		file: "leases/budget.go", old: "return a.rank < b.rank", new: "return a.rank > b.rank",
		pkg: "./leases", run: "TestBudget_",
	},
	{
		name: "a release leaves a checkpoint that waits behind", claim: "S3",
		file: "leases/release.go", old: "if h.lags() {", new: "if h.lags() && h.key == \"\" {",
		pkg: "./leases", run: "TestDefer_",
	},
	{
		name: "a smaller checkpoint replaces a larger one that waits", claim: "S2",
		file: "leases/late.go", old: "old.at.Compare(at) > 0: // of", new: "old.at.Compare(at) > 9: // of",
		pkg: "./leases", run: "TestDefer_",
	},
	{
		name: "a shard ends with one of its children", claim: "S5",
		file: "retrieval/trouble.go", old: "case at.inherited:", new: "case len(at.children) > 0:",
		pkg: "./retrieval", run: "TestPolling_waitsForTheChildren",
	},
	{
		name: "a lease is taken under which user code of an earlier tenure still runs", claim: "S8",
		file: "coordinator/leasecoordinator.go", old: "Busy: shards.lost,", new: "",
		pkg: ".", run: "TestStop_namesAProcessorOfAnEarlierTenure",
	},
}

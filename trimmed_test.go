package shardlease_test

import (
	"cmp"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// A fleet that nobody started for longer than the stream keeps its records, told to fail rather than skip some: Run ends with an
// error that says so, the checkpoint stays, and the lease is free. Then it is told to go on, and does with one warning.
func TestRun_endsWhenAPositionIsNotKeptAnyMoreIfItIsToldToFail(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Config){
		"polling":         func(*config.Config) {},
		"fan-out":         func(c *config.Config) { c.Retrieval.Mode = config.FanOut },
		"several streams": several(named(fleettest.Stream)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 1)
				w := f.Start("a", change)
				f.Put(10, 2)
				f.WaitDelivered(20 * time.Second)
				time.Sleep(time.Second)
				if err := w.Stop(); err != nil {
					t.Fatal(err)
				}
				place := func() (at, owner string) {
					for _, row := range f.Rows() {
						s, _ := row["checkpoint"].(*types.AttributeValueMemberS)
						o, _ := row["leaseOwner"].(*types.AttributeValueMemberS)
						at = cmp.Or(at, s.Value)
						if o != nil {
							owner = o.Value
						}
					}
					return at, owner
				}
				before, _ := place()
				time.Sleep(26 * time.Hour)
				f.Put(4, 2)
				var told []config.TrimmedEvent
				err := f.Start("b", change, func(c *config.Config) {
					c.Retrieval.OnTrimmed = config.FailRun
					c.Hooks = config.Chain(c.Hooks, &config.Hooks{Trimmed: func(e config.TrimmedEvent) { told = append(told, e) }})
				}).Wait()
				trimmed, ok := errors.AsType[*processor.TrimmedError](err)
				if !ok || trimmed.Position != before || trimmed.First == "" || len(told) != 1 || told[0] != trimmed.TrimmedEvent {
					t.Fatalf("Run returned %v, told were %+v; want one TrimmedError with position %s", err, told, before)
				}
				if at, owner := place(); at != before || owner != "" {
					t.Errorf("the checkpoint is %s of %q, want %s, free", at, owner, before)
				}
				if n := f.Audit.Distinct(); n != 10 {
					t.Errorf("%d records were delivered, want the first 10 only", n)
				}
				var log warnings
				w = f.Start("c", change, func(c *config.Config) { c.Logger = log.logger() })
				f.WaitDelivered(time.Minute)
				if err := w.Stop(); err != nil {
					t.Error(err)
				}
				if lines := log.with("records may be lost"); len(lines) != 1 || len(log.with("level=WARN", "records may be lost", "position="+trimmed.Position, "first="+trimmed.First)) != 1 {
					t.Errorf("the log has %q, want one warning with position %s and first %s", lines, trimmed.Position, trimmed.First)
				}
			})
		})
	}
}

package shardlease_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

func TestStop_namesAProcessorOfAnEarlierTenureThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Put(10, 1)
		release := make(chan struct{})
		var cancelled atomic.Int64
		w := f.StartWith("w", func(processor.Shard) processor.RecordProcessor {
			return &stuck{release: release, cancelled: &cancelled}
		})
		<-w.Ready()
		time.Sleep(5 * time.Second)
		w.CutOff() // the lease is lost while ProcessRecords hangs …
		time.Sleep(15 * time.Second)
		w.Reconnect()
		time.Sleep(15 * time.Second)
		if n := len(w.Assignments()); n != 0 {
			t.Errorf("the worker holds %d leases after it was reconnected, want 0: it could read nothing under them", n)
		}
		err := w.Stop()
		if err == nil || !strings.Contains(err.Error(), "ProcessRecords") {
			t.Errorf("Run returned %v while ProcessRecords of an earlier tenure runs, want an error that names it", err)
		}
		close(release)
	})
}

func TestStop_obeysItsDeadlineWhileTheTableIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Put(10, 1)
		w := f.Start("w", func(c *config.Config) { c.LeaseManagement.FailoverTime = 5 * time.Minute })
		f.WaitDelivered(5 * time.Second)
		back := f.Server.Inject(emulator.Rule{Client: "w", Service: "dynamodb", Effect: emulator.Freeze()})
		defer back()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_ = w.Shutdown(ctx)
		_ = w.Wait()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("Run returned %v after a Shutdown with a deadline of 10s, want at most 20s", took)
		}
	})
}

func TestRun_ridesOutATableThatRefusesOnceItHasStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		w := f.Start("w")
		<-w.Ready()
		mend := f.Server.Inject(emulator.Rule{
			Client: "w", Operation: "GetItem", Effect: emulator.Fail(400, "UnrecognizedClientException", "The security token included in the request is invalid."),
		})
		time.Sleep(5 * time.Minute)
		mend()
		f.Put(100, 10)
		f.WaitDelivered(10 * time.Second)
		f.Check()
		if err := w.Stop(); err != nil {
			t.Errorf("Run returned %v, want nil: what it met was mended", err)
		}
	})
}

func TestRun_endsIfItMayNotWriteLeases(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"UpdateItem", "GetItem", "PutItem", "Scan"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 2)
				f.Server.Inject(emulator.Rule{Client: "w", Operation: operation, Effect: emulator.Fail(400, "AccessDeniedException", "User is not authorized")})
				w := f.Start("w")
				time.Sleep(time.Minute)
				if s := w.State(); s != "Stopped" {
					t.Fatalf("the worker is %s a minute after its first %s was denied, want it to have ended", s, operation)
				}
				if err := w.Wait(); err == nil || !strings.Contains(err.Error(), "dynamodb:"+operation) {
					t.Errorf("Run returned %v, want an error that names dynamodb:%s", err, operation)
				}
			})
		})
	}
}

func TestRun_warnsWhenItMayNotTakeAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		a := f.Start("a")
		<-a.Ready()
		var worst atomic.Int64
		b := f.Start("b", func(c *config.Config) {
			c.Hooks = &config.Hooks{Retried: func(e config.RetryEvent) {
				if e.What == "take lease" {
					worst.Store(max(worst.Load(), int64(e.Attempt)))
				}
			}}
		})
		time.Sleep(20 * time.Second)
		<-b.Ready()
		f.Server.Inject(emulator.Rule{Client: "b", Operation: "UpdateItem", Effect: emulator.Fail(400, "AccessDeniedException", "User is not authorized")})
		a.Kill()
		time.Sleep(2 * time.Minute)
		if n := worst.Load(); n < 3 {
			t.Errorf("takes that were denied for two minutes were told with attempt %d at most, want a count that rises", n)
		}
	})
}

func TestRun_endsWhenItsStreamIsDeletedAndWhenItIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		again bool
		want  string
	}{
		"deleted":   {false, "stream not found"},
		"made anew": {true, "created anew"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 2)
				f.Put(100, 10)
				w := f.Start("w")
				f.WaitDelivered(10 * time.Second)
				stream := fleettest.Stream
				if _, err := f.Kinesis.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: &stream}); err != nil {
					t.Fatal(err)
				}
				if c.again {
					time.Sleep(time.Millisecond) // no shard is read in between: a worker that finds no stream ends for that
					if err := f.Server.CreateStream(stream, 2); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Minute)
				if s := w.State(); s != "Stopped" {
					t.Fatalf("the worker is %s ten minutes after its stream was deleted, want it to have ended", s)
				}
				err := w.Wait()
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("Run returned %v, want an error with %q", err, c.want)
				}
				for line := range strings.Lines(err.Error()) {
					if strings.Count(line, "shard shardId-") != 1 || strings.Count(line, "read shard") != 1 {
						t.Errorf("Run returned %s, want it to name the shard once", line)
					}
				}
			})
		})
	}
}

func TestRun_endsWhenItsTableIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Put(100, 10)
		w := f.Start("w")
		f.WaitDelivered(10 * time.Second)
		table := fleettest.App
		if _, err := f.DynamoDB.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := w.State(); s != "Stopped" {
			t.Fatalf("the worker is %s a minute after its table was deleted, want it to have ended", s)
		}
		if err := w.Wait(); err == nil || !strings.Contains(err.Error(), table) {
			t.Errorf("Run returned %v, want an error that names the table", err)
		}
	})
}

func TestRun_refusesToStartInTheFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		w := f.Start("w", func(c *config.Config) { c.InitialPosition = config.AtTimestamp(time.Now().Add(24 * time.Hour)) })
		time.Sleep(time.Minute)
		if s := w.State(); s != "Stopped" {
			t.Fatalf("the worker is %s, want it to have ended", s)
		}
		if err := w.Wait(); err == nil || !strings.Contains(err.Error(), "2000-01-02") {
			t.Errorf("Run returned %v, want an error that names the time", err)
		}
		if rows := f.Rows(); len(rows) != 0 {
			t.Errorf("%d rows were written, want none", len(rows))
		}
	})
}

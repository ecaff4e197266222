package shardlease_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
)

func TestFanOut_theLastWorkerRemovesTheRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 3)
		deregister := func(c *config.Config) {
			fanOut(c)
			c.Retrieval.FanOut.Deregister = true
		}
		a, b, c := f.Start("a", deregister), f.Start("b", deregister), f.Start("c", deregister)
		f.Put(30, 10)
		f.WaitDelivered(30 * time.Second)
		time.Sleep(20 * time.Second)
		for i, w := range []*fleettest.Worker{a, b} {
			if err := w.Stop(); err != nil {
				t.Fatal(err)
			}
			if n := len(consumers(t, f)); n != 1 {
				t.Fatalf("%d consumers after %d of 3 workers have stopped, want one", n, i+1)
			}
			f.Put(30, 10)
			f.WaitDelivered(30 * time.Second)
		}
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(consumers(t, f)); n != 0 {
			t.Errorf("%d consumers after the last worker has stopped, want none", n)
		}
		f.Check()
	})
}

func TestFanOut_aFleetThatStopsAtOnceRemovesTheRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 6)
		var workers []*fleettest.Worker
		for _, id := range []string{"a", "b", "c"} {
			workers = append(workers, f.Start(id, func(c *config.Config) {
				fanOut(c)
				c.Retrieval.FanOut.Deregister = true
			}))
		}
		f.Put(60, 10)
		f.WaitDelivered(30 * time.Second)
		time.Sleep(20 * time.Second)
		done := make(chan error)
		for _, w := range workers {
			go func() { done <- w.Stop() }()
		}
		for range workers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := len(consumers(t, f)); n != 0 {
			t.Errorf("%d consumers are left", n)
		}
	})
}

func TestFanOut_aRegistrationThatCannotBeRemovedIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Server.Inject(emulator.Rule{Operation: "DeregisterStreamConsumer", Effect: emulator.Fail(400, "AccessDeniedException", "no")})
		w := f.Start("a", func(c *config.Config) {
			fanOut(c)
			c.Retrieval.FanOut.Deregister = true
		})
		f.Put(3, 1)
		f.WaitDelivered(30 * time.Second)
		if err := w.Stop(); err == nil || !strings.Contains(err.Error(), "shardlease consumers deregister --stream orders orders-audit") {
			t.Errorf("Run ended with %v, want the command that removes the registration", err)
		}
	})
}

// Who may not ask for the stream's ARN, or whether it has a consumer, has registered nothing, and was alone: there is nothing that could be paid for.
func TestFanOut_aStopOfAWorkerThatRegisteredNothingIsClean(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"DescribeStreamSummary", "DescribeStreamConsumer", "RegisterStreamConsumer"} {
		for _, polls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, falls back: %t", denied, polls), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := fleettest.New(t, 1)
					f.Server.Inject(emulator.Rule{Operation: denied, Effect: emulator.Fail(400, "AccessDeniedException", "no")})
					w := f.Start("a", func(c *config.Config) {
						fanOut(c)
						c.Retrieval.FanOut.Deregister, c.Retrieval.FanOut.FallBackToPolling = true, polls
					})
					time.Sleep(20 * time.Second)
					if err := w.Stop(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// Whether a worker before it, which was killed, has left a consumer can neither be seen nor be ruled out.
func TestFanOut_aStopSaysWhetherAConsumerIsLeftOrMayBe(t *testing.T) {
	t.Parallel()
	const command = ", and is paid for until it is removed, with: shardlease consumers deregister --stream orders orders-audit"
	for want, denied := range map[string][]string{
		`consumer "orders-audit" of stream "orders" is paid for until it is removed, with: shardlease consumers deregister --stream orders orders-audit`: {"DeregisterStreamConsumer"},
		`a consumer of this application may still be registered with stream "orders"` + command:                                                          {"DescribeStreamConsumer", "DeregisterStreamConsumer"},
		"": {"RegisterStreamConsumer", "DeregisterStreamConsumer"},
	} {
		t.Run(strings.Join(denied, ", "), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 1)
				for _, op := range denied {
					f.Server.Inject(emulator.Rule{Operation: op, Effect: emulator.Fail(400, "AccessDeniedException", "no")})
				}
				w := f.Start("a", func(c *config.Config) {
					fanOut(c)
					c.Retrieval.FanOut.Deregister = true
				})
				time.Sleep(20 * time.Second)
				if err := w.Stop(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("Run ended with %v, want %q", err, want)
				}
			})
		})
	}
}

// leaving is a worker of several streams that removes the consumers when it is the last.
func leaving(streams ...string) func(*config.Config) {
	return func(c *config.Config) {
		several(named(streams...)...)(c)
		fanOut(c)
		c.Retrieval.FanOut.Deregister = true
	}
}

// A worker has opened only shards of its own leases; the last one removes the consumers of all streams nevertheless.
func TestFanOut_theLastWorkerRemovesTheConsumersOfAllStreams(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(a, b *fleettest.Worker) error{
		"at once": func(a, b *fleettest.Worker) error {
			done := make(chan error)
			go func() { done <- a.Stop() }()
			return errors.Join(b.Stop(), <-done)
		},
		"one after the other": func(a, b *fleettest.Worker) error { return errors.Join(a.Stop(), b.Stop()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetOf(t, 1, "xs", "ys")
				a, b := f.Start("a", leaving("xs", "ys")), f.Start("b", leaving("xs", "ys"))
				time.Sleep(time.Minute)
				if len(a.Assignments()) != 1 || len(b.Assignments()) != 1 {
					t.Fatalf("%v and %v, want one lease each", a.Assignments(), b.Assignments())
				}
				for _, s := range []string{"xs", "ys"} {
					if n := len(consumersOf(t, f, s)); n != 1 {
						t.Fatalf("%d consumers of %s", n, s)
					}
				}
				if err := stop(a, b); err != nil {
					t.Error(err)
				}
				for _, s := range []string{"xs", "ys"} {
					if n := len(consumersOf(t, f, s)); n != 0 {
						t.Errorf("%d consumers of %s are left", n, s)
					}
				}
			})
		})
	}
}

func TestFanOut_eachRegistrationThatCannotBeRemovedIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 1, "xs", "ys")
		f.Server.Inject(emulator.Rule{Operation: "DeregisterStreamConsumer", Effect: emulator.Fail(400, "AccessDeniedException", "no")})
		w := f.Start("a", leaving("xs", "ys"))
		time.Sleep(20 * time.Second)
		err := w.Stop()
		for _, s := range []string{"xs", "ys"} {
			if want := "shardlease consumers deregister --stream arn:aws:kinesis:us-east-1:000000000000:stream/" + s + " orders-audit"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Run ended with %v, want %s", err, want)
			}
		}
	})
}

// One worker is killed and the other one stops: it leaves the registrations to the dead one, which will not remove them, and says
// how to. To leave them to one that lives is nothing to look at.
func TestFanOut_aStopThatLeavesRegistrationsToADeadWorkerNamesTheCommand(t *testing.T) {
	t.Parallel()
	const said = "the application's consumers stay registered, and are paid for"
	for name, dead := range map[string]bool{"dead": true, "alive": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetOf(t, 4, "xs", "ys")
				var log warnings
				a, b := f.Start("a", leaving("xs", "ys")), f.Start("b", leaving("xs", "ys"), func(c *config.Config) { c.Logger = log.logger() })
				time.Sleep(40 * time.Second)
				if dead {
					a.Kill()
				}
				if err := b.Stop(); err != nil {
					t.Error(err)
				}
				lines := log.with("level=WARN", said)
				if !dead {
					if len(lines) != 0 {
						t.Errorf("warnings %v, want none: another worker goes on", lines)
					}
					return
				}
				if len(lines) != 1 {
					t.Fatalf("warnings %v, want one", lines)
				}
				for _, s := range []string{"xs", "ys"} {
					if want := "shardlease consumers deregister --stream arn:aws:kinesis:us-east-1:000000000000:stream/" + s + " orders-audit"; !strings.Contains(lines[0], want) {
						t.Errorf("%s\ndoes not say %s", lines[0], want)
					}
				}
			})
		})
	}
}

func TestFanOut_aStopBeforeThereIsATableIsClean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1, emulator.WithControlDelay(10*time.Second))
		time.Sleep(20 * time.Second)
		w := f.Start("a", func(c *config.Config) {
			fanOut(c)
			c.Retrieval.FanOut.Deregister = true
		})
		time.Sleep(20 * time.Millisecond)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// plain has no more methods than a worker that polls needs.
type plain struct{ shardlease.KinesisAPI }

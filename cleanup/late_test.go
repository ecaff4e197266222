package cleanup

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// lateCreates lets requests to create a row reach the table after a delay, whether or not the client still waits for them.
type lateCreates struct {
	next  http.RoundTripper
	delay time.Duration
	sent  *sync.WaitGroup
}

func (l lateCreates) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.PutItem" {
		return l.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	late := r.Clone(context.WithoutCancel(r.Context()))
	late.Body = io.NopCloser(bytes.NewReader(body))
	l.sent.Go(func() {
		timer := time.NewTimer(l.delay)
		<-timer.C
		if resp, err := l.next.RoundTrip(late); err == nil {
			_ = resp.Body.Close()
		}
	})
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// What the network delays may land when everything has gone on: the owner of a shard that ended asks for its child's row; the
// request is held up; the lease is lost, and the next owner's request for the same row lands. The child is read to its end at once, and its
// own children begin. If its row went then, the first request would make it again, and the child would be read twice.
func TestRun_aRequestThatComesLateMakesNoDeletedRowAgain(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{
		"by some seconds": 9 * time.Second, "by as much as a request may be late": leases.RequestLife - time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(ctx context.Context, w *world) {
				defer w.start(w.manager("m"))()
				w.after(interval / 2)
				var sent sync.WaitGroup
				cloud := w.server.ClientConfig("first")
				client, _ := cloud.HTTPClient.(*http.Client)
				cloud.HTTPClient = &http.Client{Transport: lateCreates{client.Transport, delay, &sent}}
				first := leases.NewTable(dynamodb.NewFromConfig(cloud), w.cfg.LeaseManagement, leases.TableOptions{Worker: "first"})
				child := lease("c", checkpoint.TrimHorizon)
				child.ParentShardIDs = []string{"p"}
				deciding, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				if _, err := first.Create(deciding, child); err == nil {
					t.Fatal("a request that nobody answers was answered")
				}
				// The next owner's request, the end of p, and of the child.
				p, ended, grandchild := lease("p", checkpoint.ShardEnd), child, lease("g", at("7"))
				p.ChildShardIDs = []string{"c"}
				ended.Checkpoint, ended.ChildShardIDs = checkpoint.ShardEnd, []string{"g"}
				grandchild.ParentShardIDs = []string{"c"}
				w.create(p, ended, grandchild)
				// Ever more passes: as many as a shorter Interval would bring.
				passes := w.manager("m2")
				for range 120 {
					if _, err := passes.Pass(ctx); err != nil {
						t.Fatal(err)
					}
					w.after(time.Second)
				}
				sent.Wait()
				synctest.Wait()
				w.after(w.cfg.Cleanup.KeepFinished + 2*interval)
				if got := w.keys(); got != "g" {
					for _, l := range w.rows() {
						t.Logf("%s at %v", l.Key, l.Checkpoint)
					}
					t.Errorf("rows %s, want g", got)
				}
			})
		})
	}
}

func TestWatch_countsAnewWhenARowComesBack(t *testing.T) {
	t.Parallel()
	m := &LeaseCleanupManager{cfg: config.LeaseCleanupConfig{KeepFinished: time.Minute}}
	now := time.Now()
	young := func(after time.Duration, rows ...leases.Lease) bool {
		m.watch(now.Add(after), rows)
		return m.justFinished(now.Add(after), "p")
	}
	p, open := lease("p", checkpoint.ShardEnd), lease("p", at("3"))
	for _, step := range []struct {
		after time.Duration
		rows  []leases.Lease
		want  bool
	}{
		{0, []leases.Lease{p}, true},
		{59 * time.Second, []leases.Lease{p}, true},
		{60 * time.Second, []leases.Lease{p}, false},
		{61 * time.Second, nil, true},
		{62 * time.Second, []leases.Lease{p}, true},
		{63 * time.Second, []leases.Lease{open}, true},
		{123 * time.Second, []leases.Lease{p}, true},
		{183 * time.Second, []leases.Lease{p}, false},
	} {
		if got := young(step.after, step.rows...); got != step.want {
			t.Errorf("after %v: just finished %t, want %t", step.after, got, step.want)
		}
	}
}

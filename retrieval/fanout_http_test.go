package retrieval

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// Over TLS: with HTTP/2 all subscriptions share a connection; without it each has its own, and that is warned about once.
func TestFanOut_sharesAConnectionIfItCan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		http2    bool
		most     int64 // connections
		warnings int64
	}{
		"HTTP/2":   {true, 4, 0},
		"HTTP/1.1": {false, 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const shards = 20
			s := emulator.New()
			if err := s.CreateStream(stream, shards); err != nil {
				t.Fatal(err)
			}
			user := kinesis.NewFromConfig(s.ClientConfig("user"))
			for i := range 200 {
				if _, err := user.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: new(stream), PartitionKey: new(strconv.Itoa(i)), Data: []byte("x")}); err != nil {
					t.Fatal(err)
				}
			}
			var connections, warnings atomic.Int64
			server := httptest.NewUnstartedServer(s)
			server.EnableHTTP2 = c.http2
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			server.StartTLS()
			defer server.Close()
			api := kinesis.NewFromConfig(aws.Config{
				Region: emulator.Region, BaseEndpoint: &server.URL, HTTPClient: server.Client(),
				Credentials: credentials.NewStaticCredentialsProvider("reader", "secret", ""),
			})
			cfg := config.Default("audit", stream).Complete().Retrieval
			f := NewFanOut(api, NewPolling(api, cfg, PollingOptions{Worker: "w"}))
			f.polling.log = countWarnings(&warnings)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := 0
			for i := range shards {
				source, err := f.Open(ctx, Start{Stream: stream, ShardID: "shardId-0000000000" + strconv.Itoa(100 + i)[1:], From: checkpoint.TrimHorizon})
				if err != nil {
					t.Fatal(err)
				}
				defer source.Close()
				for {
					b, err := source.Next(ctx)
					if err != nil {
						t.Fatalf("after %d records: %v", got, err)
					}
					got += len(b.Records)
					b.Release()
					if b.MillisBehindLatest == 0 {
						break
					}
				}
			}
			if got != 200 {
				t.Errorf("%d records, want 200", got)
			}
			if n := connections.Load(); n > c.most || !c.http2 && n < shards {
				t.Errorf("%d connections for %d shards", n, shards)
			}
			if n := warnings.Load(); n != c.warnings {
				t.Errorf("%d warnings, want %d", n, c.warnings)
			}
		})
	}
}

// A client that gives answers up after a time of its own ends every subscription. They are replaced, nothing is lost, and the log says once
// who ends them: as a failure they would look like trouble of the network, and never go on failing.
func TestFanOut_warnsOnceOfAClientWhoseTimeoutEndsSubscriptions(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		cloud := w.server.ClientConfig("reader")
		client := *cloud.HTTPClient.(*http.Client)
		client.Timeout = 20 * time.Second
		cloud.HTTPClient = &client
		f := w.fanOut()
		f.api = kinesis.NewFromConfig(cloud)
		var warnings atomic.Int64
		f.polling.log = countWarnings(&warnings)
		s := w.openFanOut(ctx, f, shard0, checkpoint.TrimHorizon)
		defer s.Close()
		for i := range 10 {
			w.put(5)
			if got, _ := w.take(ctx, s, 5); !cmp.Equal(got, numbers(5*i, 5*i+5)) {
				t.Errorf("got %v", got)
			}
			time.Sleep(30 * time.Second)
		}
		if n := warnings.Load(); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	})
}

package awshttp

import (
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// What a subscription may have received that nobody has read yet: it is not in the worker's budget of bytes, so that a
// thousand of them should not have more than the budget itself.
const (
	leastWindow = 64 << 10  // a shard's 2 MiB a second need 21 KB at a distance of 10 ms
	mostWindow  = 256 << 10 // and 210 KB at 100 ms
	windowPart  = 1000
)

// A connection on which nothing comes is asked whether it is alive. The service says something on each subscription every
// few seconds.
const (
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
)

// Subscriptions returns a copy of cfg for a client that keeps subscriptions open to shards, by a worker with such a budget of bytes. A client that is
// the SDK's own, or absent, gets windows and health checks of HTTP/2, no bound on how long an answer lasts, and
// connections that are not shared with other clients; one of another kind is used as it is.
func Subscriptions(cfg aws.Config, byteBudget int64) aws.Config {
	cfg = cfg.Copy()
	next := cfg.HTTPClient
	if h, ok := next.(hider); ok {
		next = h.next
	}
	if next == nil {
		next = sdkhttp.NewBuildableClient()
	}
	if b, ok := next.(*sdkhttp.BuildableClient); ok && b != nil {
		next = b.WithTimeout(0).WithTransportOptions(func(t *http.Transport) {
			h2 := http.HTTP2Config{}
			if t.HTTP2 != nil {
				h2 = *t.HTTP2
			}
			if h2.MaxReceiveBufferPerStream == 0 {
				h2.MaxReceiveBufferPerStream = int(min(max(byteBudget/windowPart, leastWindow), mostWindow))
			}
			if h2.SendPingTimeout == 0 {
				h2.SendPingTimeout, h2.PingTimeout = pingAfter, pingTimeout
			}
			t.HTTP2 = &h2
		})
	}
	cfg.HTTPClient = HideWriterTo(next)
	return cfg
}

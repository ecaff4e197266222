package awshttp

import (
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// idleConnections is how many connections to one endpoint stay open for the next request. The SDK keeps 10; a worker that
// polls a few hundred shards has more requests than that under way and would open, and close, a connection for most of
// them.
const idleConnections = 100

// idleTime is how long a connection stays open without a request. The SDK keeps one for 90 s. The shards of a worker use
// every connection that they need many times a second; what is left over from a burst, as at the start, costs some 25 KB each.
const idleTime = 30 * time.Second

// Prepare returns a copy of cfg for the clients of a worker. A client that is the SDK's own, or absent, keeps more idle
// connections, and each for a shorter time, unless whoever configured it has already changed their number; one of another kind is used as it is.
// In both cases requests pass through [HideWriterTo].
func Prepare(cfg aws.Config) aws.Config {
	cfg = cfg.Copy()
	next := cfg.HTTPClient
	if next == nil {
		next = sdkhttp.NewBuildableClient()
	}
	if b, ok := next.(*sdkhttp.BuildableClient); ok && b != nil {
		next = b.WithTransportOptions(func(t *http.Transport) {
			if t.MaxIdleConnsPerHost != sdkhttp.DefaultHTTPTransportMaxIdleConnsPerHost {
				return
			}
			t.MaxIdleConnsPerHost = idleConnections
			if t.IdleConnTimeout == sdkhttp.DefaultHTTPTransportIdleConnTimeout {
				t.IdleConnTimeout = idleTime
			}
			if t.MaxIdleConns != 0 {
				t.MaxIdleConns = max(t.MaxIdleConns, 2*idleConnections) // Kinesis and DynamoDB
			}
		})
	}
	cfg.HTTPClient = HideWriterTo(next)
	return cfg
}

// HideWriterTo returns a client that passes requests on to next with a body that has no WriteTo method.
//
// The SDK closes a request's body as soon as the header of the answer is there, and its body's WriteTo then reports
// (0, io.EOF). net/http asks once more for bytes after it has sent a body of known length: with WriteTo, that probe may
// come after the close, be taken for a failed write, and make the transport close the connection while the answer is
// still being read. The call then fails with "unexpected EOF" or "use of closed network connection", although the
// service has done what was asked. Read, which net/http falls back to, reports io.EOF the way the probe expects.
func HideWriterTo(next aws.HTTPClient) aws.HTTPClient {
	if c, ok := next.(hider); ok {
		return c
	}
	return hider{next}
}

type hider struct{ next aws.HTTPClient }

func (c hider) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		if _, ok := r.Body.(io.WriterTo); ok {
			r.Body = struct{ io.ReadCloser }{r.Body} // the request is the SDK's own for this attempt
		}
	}
	return c.next.Do(r)
}

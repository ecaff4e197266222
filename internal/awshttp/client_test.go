package awshttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// body is like the SDK's: it can write itself.
type body struct{ *strings.Reader }

func (body) Close() error { return nil }

type client func(*http.Request) (*http.Response, error)

func (c client) Do(r *http.Request) (*http.Response, error) { return c(r) }

func TestHideWriterTo_leavesABodyThatCanOnlyBeRead(t *testing.T) {
	t.Parallel()
	seen := 0
	c := HideWriterTo(HideWriterTo(client(func(r *http.Request) (*http.Response, error) {
		seen++
		if _, ok := r.Body.(io.WriterTo); ok {
			t.Error("the body has a WriteTo method")
		}
		if data, err := io.ReadAll(r.Body); err != nil || string(data) != "hello" {
			t.Errorf("body %q, %v", data, err)
		}
		return &http.Response{StatusCode: http.StatusTeapot}, r.Body.Close()
	})))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost", body{strings.NewReader("hello")})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r) //nolint:bodyclose // it has none
	if err != nil || resp.StatusCode != http.StatusTeapot || seen != 1 {
		t.Errorf("%v, %v after %d calls", resp, err, seen)
	}
}

func TestHideWriterTo_passesARequestWithoutABody(t *testing.T) {
	t.Parallel()
	c := HideWriterTo(client(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil && r.Body != http.NoBody {
			t.Errorf("body %v", r.Body)
		}
		return nil, nil
	}))
	for _, b := range []io.ReadCloser{nil, http.NoBody} {
		if _, err := c.Do(&http.Request{Body: b}); err != nil { //nolint:bodyclose // there is no response
			t.Error(err)
		}
	}
}

func TestPrepare_keepsMoreConnectionsButNotForLongUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	transport := func(c aws.HTTPClient) *http.Transport {
		return c.(hider).next.(*sdkhttp.BuildableClient).GetTransport()
	}
	if tr := transport(Prepare(aws.Config{}).HTTPClient); tr.MaxIdleConnsPerHost != idleConnections || tr.IdleConnTimeout != idleTime {
		t.Errorf("%d idle connections for %v by default", tr.MaxIdleConnsPerHost, tr.IdleConnTimeout)
	}
	patient := sdkhttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) { tr.IdleConnTimeout = time.Hour })
	if d := transport(Prepare(aws.Config{HTTPClient: patient}).HTTPClient).IdleConnTimeout; d != time.Hour {
		t.Errorf("idle connections live for %v, they asked for 1h", d)
	}
	theirs := sdkhttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) { tr.MaxIdleConnsPerHost = 3 })
	before := aws.Config{HTTPClient: theirs, Region: "eu-north-1"}
	after := Prepare(before)
	if n := transport(after.HTTPClient).MaxIdleConnsPerHost; n != 3 {
		t.Errorf("%d idle connections, they asked for 3", n)
	}
	if before.HTTPClient != aws.HTTPClient(theirs) || after.Region != before.Region {
		t.Error("the configuration given was changed, or the copy is not whole")
	}
	other := client(nil)
	if c := Prepare(aws.Config{HTTPClient: other}).HTTPClient.(hider).next; c == nil {
		t.Error("a client of another kind is gone")
	}
}

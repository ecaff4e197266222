package awshttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

func TestSubscriptions_setsHTTP2OfTheSDKsOwnClientOnly(t *testing.T) {
	t.Parallel()
	transport := func(cfg aws.Config) *http.Transport {
		return cfg.HTTPClient.(hider).next.(*sdkhttp.BuildableClient).GetTransport()
	}
	for name, c := range map[string]struct {
		budget int64
		window int
	}{
		"a small budget": {10 << 20, 64 << 10},
		"the default":    {256 << 20, 256 << 10},
		"between":        {128 << 20, 128 << 20 / 1000},
	} {
		h2 := transport(Subscriptions(aws.Config{}, c.budget)).HTTP2
		if h2 == nil || h2.MaxReceiveBufferPerStream != c.window || h2.SendPingTimeout != pingAfter {
			t.Errorf("%s: HTTP/2 settings %+v, want a window of %d", name, h2, c.window)
		}
	}
	own := sdkhttp.NewBuildableClient().WithTimeout(time.Minute).WithTransportOptions(func(t *http.Transport) {
		t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, SendPingTimeout: time.Second}
	})
	prepared := Subscriptions(Prepare(aws.Config{HTTPClient: own}), 256<<20) // as one that was prepared for other calls
	h2 := transport(prepared).HTTP2
	if h2.MaxReceiveBufferPerStream != 1<<20 || h2.SendPingTimeout != time.Second {
		t.Errorf("settings of the user's were changed: %+v", h2)
	}
	if d := prepared.HTTPClient.(hider).next.(*sdkhttp.BuildableClient).GetTimeout(); d != 0 {
		t.Errorf("answers may last %v, want no bound", d)
	}
	foreign := &http.Client{Timeout: time.Minute}
	if got := Subscriptions(aws.Config{HTTPClient: foreign}, 256<<20).HTTPClient.(hider).next; got != foreign || foreign.Timeout != time.Minute {
		t.Errorf("a client that is not the SDK's became %v", got)
	}
}

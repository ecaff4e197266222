package sim

import (
	"context"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	endpoints "github.com/aws/smithy-go/endpoints"
	"github.com/aws/smithy-go/middleware"
)

// The SDK's clients as processes of a simulation have them: the real ones, without what costs a sixth of all time and decides nothing
// here. Where the services are is said and not derived; nothing is signed, hashed or logged; no header says who asks; and no
// http.Client, which would follow redirects and keep cookies, stands before the network.

func (w *world) dynamodb(cloud aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(cloud, func(o *dynamodb.Options) {
		o.EndpointResolverV2 = nearby[dynamodb.EndpointParameters]{}
		o.DisableValidateResponseChecksum = true
		o.APIOptions = append(o.APIOptions, lighten)
	})
}

func (w *world) kinesisOf(cloud aws.Config) *kinesis.Client {
	return kinesis.NewFromConfig(cloud, func(o *kinesis.Options) {
		o.EndpointResolverV2 = nearby[kinesis.EndpointParameters]{}
		o.APIOptions = append(o.APIOptions, lighten)
	})
}

// lighten takes steps out of a request's way that only the services' owners, or somebody who debugs, would miss. A step that is not
// there is none to take out.
func lighten(s *middleware.Stack) error {
	for _, id := range []string{"ClientRequestID", "UserAgent", "RecursionDetection"} {
		_, _ = s.Build.Remove(id)
	}
	for _, id := range []string{"ComputePayloadHash", "RetryMetricsHeader", "InterceptBeforeRetryLoop", "InterceptAttempt"} {
		_, _ = s.Finalize.Remove(id)
	}
	_, _ = s.Deserialize.Remove("RequestResponseLogger")
	return nil
}

// cloud is the SDK's configuration of a client at the emulator, whose requests pass through a tap if there is one.
func (w *world) cloud(client string, through func(http.RoundTripper) http.RoundTripper) aws.Config {
	cloud := w.server.ClientConfig(client)
	cloud.Credentials = aws.AnonymousCredentials{}
	c, ok := cloud.HTTPClient.(*http.Client)
	if !ok {
		w.j.violate("L0", "", "", "the emulator's HTTP client is a %T, want an *http.Client", cloud.HTTPClient)
		return cloud
	}
	next := c.Transport
	if through != nil {
		next = through(next)
	}
	cloud.HTTPClient = wire{next}
	return cloud
}

// nearby is where both services are.
type nearby[P any] struct{}

var here = url.URL{Scheme: "http", Host: "emulator.invalid"}

// ResolveEndpoint implements the resolvers of both clients.
func (nearby[P]) ResolveEndpoint(context.Context, P) (endpoints.Endpoint, error) {
	return endpoints.Endpoint{URI: here}, nil
}

// wire is an HTTP client that sends requests as they are. Its errors are an http.Client's.
type wire struct{ next http.RoundTripper }

// Do implements aws.HTTPClient.
func (c wire) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: err}
	}
	return resp, nil
}

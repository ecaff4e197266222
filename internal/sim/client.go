package sim

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// The SDK's clients as processes of a simulation have them: the real ones, without what costs a fifth of all time and decides nothing
// here. Where the services are is said and not derived; nothing is signed, hashed or logged; no header says who asks; and no
// http.Client, which would follow redirects and keep cookies, stands before the network.

func (w *world) dynamodb(cloud aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(cloud, func(o *dynamodb.Options) {
		o.DisableValidateResponseChecksum = true
		o.APIOptions = append(o.APIOptions, lighten)
	})
}

func (w *world) streamsOf(cloud aws.Config) *dynamodbstreams.Client {
	return dynamodbstreams.NewFromConfig(cloud, func(o *dynamodbstreams.Options) {
		o.APIOptions = append(o.APIOptions, lighten)
	})
}

func (w *world) kinesisOf(cloud aws.Config) *kinesis.Client {
	return kinesis.NewFromConfig(cloud, func(o *kinesis.Options) {
		o.APIOptions = append(o.APIOptions, lighten)
	})
}

// lighten takes steps out of a request's way that only the services' owners, or somebody who debugs, would miss. What is left: the input
// is checked and written, the request is tried as often as the client says, its answer is read, and errors are named.
func lighten(s *middleware.Stack) error {
	retry, ok := s.Finalize.Get("Retry")
	if !ok {
		return errors.New("this version of the AWS SDK has no step Retry")
	}
	s.Build.Clear()
	s.Finalize.Clear()
	_, _ = s.Deserialize.Remove("RequestResponseLogger") // nothing is logged if there is none
	return errors.Join(s.Finalize.Add(retry, middleware.After), s.Finalize.Add(nearby{}, middleware.After))
}

// nearby is the step that says where both services are.
type nearby struct{}

func (nearby) ID() string { return "Nearby" }

// HandleFinalize implements middleware.FinalizeMiddleware.
func (nearby) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	if r, ok := in.Request.(*smithyhttp.Request); ok {
		r.URL.Scheme, r.URL.Host = "http", "emulator.invalid"
	}
	return next.HandleFinalize(ctx, in)
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

package awstest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardlease/shardlease/internal/awshttp"
)

// What clients are given for a server that is not AWS, and that wants a signature without looking at whose it is.
const (
	localRegion = "us-east-1"
	localKey    = "000000000000" // kinesis-local, which LocalStack uses, takes a key of 12 digits for the account
)

// configure fills in Config, and returns what closes its connections.
func (e *Environment) configure(ctx context.Context, lookup func(string) (string, bool), kinesis, dynamodb place) (stop func() error, err error) {
	getenv := func(name string) string { v, _ := lookup(name); return v }
	if kinesis.aws || dynamodb.aws {
		if e.Config, err = awsconfig.LoadDefaultConfig(ctx); err != nil {
			return nil, fmt.Errorf("load the AWS configuration: %w", err)
		}
	} else {
		// The environment's keys are for servers that it names: some look at them.
		keys := aws.Credentials{AccessKeyID: localKey, SecretAccessKey: "local", Source: "awstest"}
		if id, secret := getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"); id != "" && secret != "" && e.Emulator == nil {
			keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken = id, secret, getenv("AWS_SESSION_TOKEN")
		}
		e.keys = &keys
		e.Config = aws.Config{
			Region:      cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"), localRegion),
			Credentials: credentials.StaticCredentialsProvider{Value: keys},
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one, unless somebody replaced it
	transport.MaxIdleConnsPerHost = 100                          // the SDK's 10 are few for a fleet of workers in one process
	e.Config.HTTPClient = awshttp.HideWriterTo(&http.Client{Transport: transport})
	base, err := baseEndpoint(kinesis, dynamodb, func(name string) bool { _, set := lookup(name); return set })
	if err != nil {
		return nil, err
	}
	e.Config.BaseEndpoint = &base // for other services, too, which must not go to AWS either
	e.Config.ConfigSources = append([]any{endpoints{"Kinesis": kinesis.url, "DynamoDB": dynamodb.url}}, e.Config.ConfigSources...)
	return func() error { transport.CloseIdleConnections(); return nil }, nil
}

// endpoints are those of services by the SDK's names for them. The SDK's clients look for a configuration source that has
// this method.
type endpoints map[string]string

// GetServiceBaseEndpoint is called by the clients' constructors.
func (e endpoints) GetServiceBaseEndpoint(_ context.Context, sdkID string) (string, bool, error) {
	u, ok := e[sdkID]
	return u, ok, nil
}

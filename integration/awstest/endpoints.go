package awstest

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/shardlease/shardlease/internal/awshttp"
)

// The variables that this package reads besides those of the SDK.
const (
	KinesisEnv    = "SHARDLEASE_KINESIS_ENDPOINT"  // an endpoint for Kinesis
	DynamoDBEnv   = "SHARDLEASE_DYNAMODB_ENDPOINT" // an endpoint for DynamoDB
	ContainersEnv = "SHARDLEASE_CONTAINERS"        // 0 leaves a container engine alone
	AllowAWSEnv   = "SHARDLEASE_ALLOW_AWS"         // 1 allows endpoints of AWS itself
)

// The SDK's.
const (
	sdkKinesisEnv  = "AWS_ENDPOINT_URL_KINESIS"
	sdkDynamoDBEnv = "AWS_ENDPOINT_URL_DYNAMODB"
	sdkEnv         = "AWS_ENDPOINT_URL"
	sdkIgnoreEnv   = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
)

// place is where one service is to be found.
type place struct {
	url  string
	name string // of what is there, for people
	aws  bool
}

func (p place) known() bool { return p.url != "" }

// fromEnvironment are the places that variables name; a zero place is one that none does.
func fromEnvironment(getenv func(string) string) (kinesis, dynamodb place, err error) {
	if kinesis, err = placeOf(getenv, KinesisEnv, sdkKinesisEnv); err != nil {
		return place{}, place{}, err
	}
	if dynamodb, err = placeOf(getenv, DynamoDBEnv, sdkDynamoDBEnv); err != nil {
		return place{}, place{}, err
	}
	return kinesis, dynamodb, nil
}

func placeOf(getenv func(string) string, mine, sdk string) (place, error) {
	names := []string{mine, sdk, sdkEnv}
	if ignore, err := flag(getenv, sdkIgnoreEnv, false); err == nil && ignore { // the SDK would ignore its variables, too
		names = names[:1]
	}
	for _, name := range names {
		v := getenv(name)
		if v == "" {
			continue
		}
		u, err := url.Parse(v)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return place{}, fmt.Errorf("%s is %q, want an http or https URL such as http://127.0.0.1:4566", name, v)
		}
		p := place{url: v, name: "what " + name + " names", aws: awshttp.IsAWS(u.Hostname())}
		if !p.aws {
			return p, nil
		}
		allowed, err := flag(getenv, AllowAWSEnv, false)
		if err != nil {
			return place{}, err
		}
		if !allowed {
			return place{}, fmt.Errorf("%s is %q, which is AWS itself: tests write there only with %s=1", name, v, AllowAWSEnv)
		}
		p.name = "AWS itself"
		return p, nil
	}
	return place{}, nil
}

// baseEndpoint is the endpoint for clients that do not heed the one that the configuration has for their service: if
// AWS_ENDPOINT_URL is there and no variable for the service, they take aws.Config.BaseEndpoint. set tells whether there is a variable, be it empty.
func baseEndpoint(kinesis, dynamodb place, set func(name string) bool) (string, error) {
	if kinesis.url == dynamodb.url || !set(sdkEnv) || set(sdkDynamoDBEnv) {
		return kinesis.url, nil
	}
	if set(sdkKinesisEnv) {
		return dynamodb.url, nil
	}
	return "", fmt.Errorf("%s is set and makes the AWS SDK use one endpoint for both services, but Kinesis is to be at %s and DynamoDB at %s: unset it, or set %s and %s instead",
		sdkEnv, kinesis.url, dynamodb.url, sdkKinesisEnv, sdkDynamoDBEnv)
}

// flag reads a variable that is 1 or 0, or unset.
func flag(getenv func(string) string, name string, otherwise bool) (bool, error) {
	v := getenv(name)
	if v == "" {
		return otherwise, nil
	}
	on, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%s is %q, want 1 or 0", name, v)
	}
	return on, nil
}

package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/internal/awshttp"
)

// LocalRegion and LocalKey are what is used with an endpoint that is not AWS if the environment names no region and no
// credentials: such servers want a signature and do not look at whose it is.
const (
	LocalRegion = "us-east-1"
	LocalKey    = "000000000000" // kinesis-local takes a 12-digit key for the account
)

// Text is a flag that may be left out but not be empty: that is what a shell makes of a variable that is not set, and the default, AWS
// itself, is not what was meant.
type Text string

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Text) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("it is empty, want a value; leave the flag out for the default")
	}
	*t = Text(text)
	return nil
}

// KinesisFlags are the flags that say where the stream is. The zero value is AWS as the environment names it.
type KinesisFlags struct {
	Endpoint        Text `placeholder:"URL" help:"Endpoint for every service, as http://127.0.0.1:4567. If it is not one of AWS and the environment names no credentials or region, any credentials and us-east-1 are used."`
	KinesisEndpoint Text `placeholder:"URL" help:"Endpoint for Kinesis alone."`
	Region          Text `placeholder:"NAME" help:"AWS region; by default the environment's."`
}

// Validate reports an endpoint that is no URL, or two for the same service.
func (f KinesisFlags) Validate() error {
	if f.Endpoint != "" && f.KinesisEndpoint != "" {
		return errors.New("--endpoint and --kinesis-endpoint were both given, want one of them")
	}
	return errors.Join(checkURL("--endpoint", f.Endpoint), checkURL("--kinesis-endpoint", f.KinesisEndpoint))
}

// Kinesis makes the client. The error is the SDK's about its configuration files.
func (f KinesisFlags) Kinesis(ctx context.Context) (*kinesis.Client, error) {
	cfg, err := load(ctx, string(f.Region), string(cmp.Or(f.KinesisEndpoint, f.Endpoint)))
	if err != nil {
		return nil, err
	}
	return kinesis.NewFromConfig(cfg), nil
}

// Flags are the flags that say where the stream and the lease table are.
type Flags struct {
	KinesisFlags     `embed:""`
	DynamodbEndpoint Text `name:"dynamodb-endpoint" placeholder:"URL" help:"Endpoint for DynamoDB alone."`
}

// Validate reports an endpoint that is no URL, or two for the same service.
func (f Flags) Validate() error {
	if f.Endpoint != "" && f.DynamodbEndpoint != "" {
		return errors.New("--endpoint and --dynamodb-endpoint were both given, want one of them")
	}
	return errors.Join(f.KinesisFlags.Validate(), checkURL("--dynamodb-endpoint", f.DynamodbEndpoint))
}

// Clients makes both clients, and the configuration common to both (which has no endpoint).
func (f Flags) Clients(ctx context.Context) (*kinesis.Client, *dynamodb.Client, aws.Config, error) {
	k, err := f.Kinesis(ctx)
	if err != nil {
		return nil, nil, aws.Config{}, err
	}
	cfg, err := load(ctx, string(f.Region), string(cmp.Or(f.DynamodbEndpoint, f.Endpoint)))
	if err != nil {
		return nil, nil, aws.Config{}, err
	}
	return k, dynamodb.NewFromConfig(cfg), cfg, nil
}

// String names where requests go, for messages.
func (f Flags) String() string {
	return fmt.Sprintf("Kinesis at %s and DynamoDB at %s", where(cmp.Or(f.KinesisEndpoint, f.Endpoint)), where(cmp.Or(f.DynamodbEndpoint, f.Endpoint)))
}

// String names where requests go, for messages.
func (f KinesisFlags) String() string {
	return "Kinesis at " + where(cmp.Or(f.KinesisEndpoint, f.Endpoint))
}

func where(endpoint Text) string {
	return string(cmp.Or(endpoint, "the environment's endpoint"))
}

func checkURL(flag string, value Text) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(string(value))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%s is %q, want an http or https URL such as http://127.0.0.1:4567", flag, value)
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return fmt.Errorf("%s is %q, want a port from 1 to 65535", flag, value)
	}
	return nil
}

// load reads the SDK's usual sources. Only what they leave open is filled in, and only for a server that is not AWS: a
// private endpoint of AWS itself needs the real credentials, also those of an instance's role, which no variable names.
func load(ctx context.Context, region, endpoint string) (aws.Config, error) {
	if endpoint == "" { // the SDK would take it, and find out at each request
		for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS", "AWS_ENDPOINT_URL_DYNAMODB"} {
			if err := checkURL("the variable "+name, Text(os.Getenv(name))); err != nil {
				return aws.Config{}, err
			}
		}
	}
	var opts []func(*awsconfig.LoadOptions) error
	if region != "" {
		opts = append(opts, awsconfig.WithRegion(region))
	}
	local := endpoint != "" && !isAWS(endpoint)
	if local && !anySet("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI") {
		opts = append(opts, awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(LocalKey, "local", "")))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if endpoint != "" {
		cfg.BaseEndpoint = aws.String(endpoint)
	}
	if local && cfg.Region == "" {
		cfg.Region = LocalRegion
	}
	if cfg.Region == "" {
		return aws.Config{}, errors.New("no AWS region is known, want --region, the variable AWS_REGION, or a profile that names one")
	}
	return awshttp.Prepare(cfg), nil
}

func isAWS(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && awshttp.IsAWS(u.Hostname())
}

func anySet(names ...string) bool {
	for _, name := range names {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

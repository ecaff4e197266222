package awstest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/integration/containers"
)

// startTimeout bounds [Start], pulling an image included. [Open] is bounded by its context alone.
const startTimeout = 8 * time.Minute

// Environment is a Kinesis and a DynamoDB to test against. Its fields are set by [Start] or [Open] and are not to be changed;
// everything may be used by several goroutines.
type Environment struct {
	// Config is for the SDK's clients and for shardlease.New. Either service is found by it even if the two are at
	// different endpoints. Its connections are closed with the environment.
	Config aws.Config
	// KinesisEndpoint and DynamoDBEndpoint are URLs, for other processes: see [Environment.Environ].
	KinesisEndpoint, DynamoDBEndpoint string
	// Name says what serves: "localstack/localstack:4.14.0", say. If the image there is a stand-in, Name says so.
	Name string
	// Emulator is this module's emulator if that serves at least one of the two, else nil.
	Emulator *emulator.Server

	keys  *aws.Credentials // nil if they are not ours to pass on
	close func() error
}

// Start is [Open] for one test: it fails the test if there is an error, logs what was taken, and closes the environment when
// the test and its subtests are over. It takes 8 minutes at most, most of which would go into pulling an image.
func Start(tb testing.TB, opts ...Option) *Environment {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	e, err := Open(ctx, opts...)
	if err != nil {
		tb.Fatalf("awstest: %v", err)
	}
	tb.Log("awstest: " + e.String())
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Errorf("awstest: %v", err)
		}
	})
	return e
}

// Open takes the first Kinesis and the first DynamoDB that are there, in the order that the package's documentation
// tells, and starts them if need be. It is for a TestMain that shares one environment among all tests, which then use streams and
// tables of different names; the caller closes it. The error says which variable is wrong, or what could not be started; then nothing is left running.
func Open(ctx context.Context, opts ...Option) (_ *Environment, err error) {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	e := &Environment{}
	var running []func() error
	stop := func() error {
		var errs []error
		for _, f := range slices.Backward(running) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()

	var kinesis, dynamodb place
	why := ""
	if !s.emulatorOnly {
		if kinesis, dynamodb, err = fromEnvironment(os.Getenv); err != nil {
			return nil, err
		}
		if !kinesis.known() || !dynamodb.known() {
			if why, err = engine(ctx, os.Getenv); err != nil {
				return nil, err
			}
		}
		for _, c := range missing(kinesis, dynamodb, s, why == "") {
			server, err := c.start(ctx)
			if err != nil {
				return nil, err
			}
			running = append(running, func() error { return server.Stop(context.WithoutCancel(ctx)) })
			for _, p := range c.serves(&kinesis, &dynamodb) {
				*p = place{url: server.Endpoint, name: server.String()}
			}
		}
	}
	if !kinesis.known() || !dynamodb.known() {
		e.Emulator = emulator.New(s.emulatorOptions...)
		address, shut, err := e.Emulator.Listen("127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		running = append(running, func() error { shut(); return nil })
		for _, p := range []*place{&kinesis, &dynamodb} {
			if !p.known() {
				*p = place{url: address, name: "shardlease's emulator" + why}
			}
		}
	}

	shut, err := e.configure(ctx, os.LookupEnv, kinesis, dynamodb)
	if err != nil {
		return nil, err
	}
	running = append(running, shut)
	e.KinesisEndpoint, e.DynamoDBEndpoint = kinesis.url, dynamodb.url
	e.Name = kinesis.name
	if dynamodb.url != kinesis.url {
		e.Name = fmt.Sprintf("Kinesis of %s, DynamoDB of %s", kinesis.name, dynamodb.name)
	}
	e.close = sync.OnceValue(stop)
	return e, nil
}

// Close ends what [Open] started and closes the connections of Config; servers that the environment named go on. It may be
// called more than once. Workers that still run are not stopped by it: they lose their servers.
func (e *Environment) Close() error { return e.close() }

// String says what serves and where.
func (e *Environment) String() string {
	if e.KinesisEndpoint == e.DynamoDBEndpoint {
		return fmt.Sprintf("%s at %s", e.Name, e.KinesisEndpoint)
	}
	return fmt.Sprintf("%s, at %s and %s", e.Name, e.KinesisEndpoint, e.DynamoDBEndpoint)
}

// Environ are the variables, as "name=value", by which other processes find the same two services: those of the AWS
// SDKs of any language and the command shardlease. It has no credentials if it is AWS itself that serves.
func (e *Environment) Environ() []string {
	env := []string{sdkKinesisEnv + "=" + e.KinesisEndpoint, sdkDynamoDBEnv + "=" + e.DynamoDBEndpoint, "AWS_REGION=" + e.Config.Region}
	if e.keys != nil {
		env = append(env, "AWS_ACCESS_KEY_ID="+e.keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+e.keys.SecretAccessKey, "AWS_SESSION_TOKEN="+e.keys.SessionToken)
	}
	return env
}

// engine tells whether containers are to be used: if not, why says so, in brackets.
func engine(ctx context.Context, getenv func(string) string) (why string, err error) {
	must, err := containers.Required()
	if err != nil {
		return "", err
	}
	may, err := flag(getenv, ContainersEnv, true)
	if err != nil {
		return "", err
	}
	if !may {
		if must {
			return "", fmt.Errorf("%s is 0 and %s is 1: unset one of them", ContainersEnv, containers.RequireEnv)
		}
		return fmt.Sprintf(" (%s is 0)", ContainersEnv), nil
	}
	if err := containers.Engine(ctx); err != nil {
		if must {
			return "", fmt.Errorf("%s is set, and %w; %s", containers.RequireEnv, err, containers.Howto)
		}
		return fmt.Sprintf(" (%v)", containers.ErrNoEngine), nil
	}
	return "", nil
}

// container is one that is wanted.
type container struct {
	settings containers.Settings
	run      func(context.Context, containers.Settings) (*containers.Server, error)
	// Which services are taken from it.
	kinesis, dynamodb bool
}

func (c container) start(ctx context.Context) (*containers.Server, error) {
	return c.run(ctx, c.settings)
}

func (c container) serves(kinesis, dynamodb *place) (places []*place) {
	if c.kinesis {
		places = append(places, kinesis)
	}
	if c.dynamodb {
		places = append(places, dynamodb)
	}
	return places
}

// missing are the containers for what has no place yet.
func missing(kinesis, dynamodb place, s settings, engine bool) (wanted []container) {
	if !engine {
		return nil
	}
	// DynamoDB Local alone is a smaller image than LocalStack, which would bring a DynamoDB Local of its own.
	separate := !dynamodb.known() && (s.dynamodbLocal || kinesis.known())
	if !kinesis.known() {
		wanted = append(wanted, container{
			settings: containers.Settings{Image: s.image, Env: s.env}, run: containers.LocalStack,
			kinesis: true, dynamodb: !dynamodb.known() && !separate,
		})
	}
	if separate {
		wanted = append(wanted, container{run: containers.DynamoDBLocal, dynamodb: true})
	}
	return wanted
}

package awstest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/integration/awstest"
	"github.com/shardlease/shardlease/integration/containers"
	"github.com/shardlease/shardlease/processor"
)

// alone hides what the machine has: variables and an engine.
func alone(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		awstest.KinesisEnv, awstest.DynamoDBEnv, "AWS_ENDPOINT_URL_KINESIS", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL",
		containers.RequireEnv, awstest.AllowAWSEnv,
	} {
		t.Setenv(name, "")
	}
	t.Setenv(awstest.ContainersEnv, "0")
}

// consume reads from a stream until it has seen so many records, and returns them sorted.
func consume(t *testing.T, e *awstest.Environment, app, stream string, want int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var got []string
	w, err := shardlease.New(config.Default(app, stream), e.Config, processor.Each(func(_ context.Context, r processor.Record) error {
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, string(r.Data)); len(got) == want {
			cancel()
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	return got
}

func put(t *testing.T, e *awstest.Environment, stream string, records ...string) {
	t.Helper()
	client := kinesis.NewFromConfig(e.Config)
	for _, r := range records {
		if _, err := client.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: &stream, PartitionKey: &r, Data: []byte(r)}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStart_servesAWorkerWhereNothingElseIsThere(t *testing.T) {
	alone(t)
	e := awstest.Start(t)
	if want := "shardlease's emulator (SHARDLEASE_CONTAINERS is 0)"; e.Name != want || e.Emulator == nil {
		t.Errorf("environment %q, emulator %v; want %q with an emulator", e.Name, e.Emulator, want)
	}
	e.CreateStream(t, "orders", 2)
	put(t, e, "orders", "a", "b", "c")
	if got, want := consume(t, e, "audit", "orders", 3), []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if n := e.Emulator.Counts().Of(emulator.CountKey{Operation: "PutRecord"}).Requests; n != 3 {
		t.Errorf("%d PutRecord requests at the emulator, want 3", n)
	}
}

func TestStart_takesEachServiceFromWhereItsVariableSays(t *testing.T) {
	alone(t)
	var servers [2]*emulator.Server
	for i, name := range []string{awstest.KinesisEnv, awstest.DynamoDBEnv} {
		servers[i] = emulator.New()
		url, stop, err := servers[i].Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		t.Setenv(name, url)
	}
	e := awstest.Start(t)
	if want := "Kinesis of what SHARDLEASE_KINESIS_ENDPOINT names, DynamoDB of what SHARDLEASE_DYNAMODB_ENDPOINT names"; e.Name != want || e.Emulator != nil {
		t.Errorf("environment %q, emulator %v; want %q without", e.Name, e.Emulator, want)
	}
	e.CreateStream(t, "orders", 1)
	put(t, e, "orders", "a")
	if got, want := consume(t, e, "audit", "orders", 1), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	for i, service := range []emulator.Service{emulator.DynamoDB, emulator.Kinesis} {
		if n := servers[i].Counts().Of(emulator.CountKey{Service: service}).Requests; n != 0 {
			t.Errorf("%d requests for %s at the other's server", n, service)
		}
	}
}

func TestStart_takesTheEmulatorForWhatNoVariableNames(t *testing.T) {
	alone(t)
	server := emulator.New()
	url, stop, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
	e := awstest.Start(t)
	if e.DynamoDBEndpoint != url || e.KinesisEndpoint == url || e.Emulator == nil {
		t.Errorf("environment %s, want DynamoDB at %s and Kinesis of an emulator", e, url)
	}
	if _, err := dynamodb.NewFromConfig(e.Config).ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
		t.Error(err)
	}
	if n := server.Counts().Of(emulator.CountKey{Operation: "ListTables"}).Requests; n != 1 {
		t.Errorf("%d ListTables requests where the variable says, want 1", n)
	}
}

func TestOpen_withEmulatorReadsNoVariable(t *testing.T) {
	alone(t)
	t.Setenv(awstest.KinesisEnv, "https://kinesis.us-east-1.amazonaws.com")
	t.Setenv("AWS_ENDPOINT_URL", "https://kinesis.us-east-1.amazonaws.com")
	e, err := awstest.Open(t.Context(), awstest.WithEmulator(emulator.WithLimits()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kinesis.NewFromConfig(e.Config).ListStreams(t.Context(), &kinesis.ListStreamsInput{}); err != nil {
		t.Error(err)
	}
	if n := e.Emulator.Counts().Of(emulator.CountKey{Operation: "ListStreams"}).Requests; n != 1 {
		t.Errorf("%d ListStreams requests at the emulator, want 1", n)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := kinesis.NewFromConfig(e.Config, func(o *kinesis.Options) { o.RetryMaxAttempts = 1 }).ListStreams(t.Context(), &kinesis.ListStreamsInput{}); err == nil {
		t.Error("the emulator answers after Close")
	}
}

func TestOpen_saysWhatIsWrongWithTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct{ variable, value, want string }{
		"AWS itself":           {"AWS_ENDPOINT_URL", "https://dynamodb.us-east-1.amazonaws.com", awstest.AllowAWSEnv + "=1"},
		"no URL":               {awstest.KinesisEnv, "localhost", `SHARDLEASE_KINESIS_ENDPOINT is "localhost"`},
		"containers perhaps":   {awstest.ContainersEnv, "perhaps", `SHARDLEASE_CONTAINERS is "perhaps"`},
		"required perhaps":     {containers.RequireEnv, "perhaps", `SHARDLEASE_REQUIRE_CONTAINERS is "perhaps"`},
		"required and refused": {containers.RequireEnv, "1", "SHARDLEASE_CONTAINERS is 0 and SHARDLEASE_REQUIRE_CONTAINERS is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			t.Setenv(c.variable, c.value)
			e, err := awstest.Open(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("opened %v, %v; want an error with %q", e, err, c.want)
			}
		})
	}
}

// Whether there is an engine or not, a context that is over finds none.
func TestOpen_failsWithoutAnEngineIfOneIsRequired(t *testing.T) {
	alone(t)
	t.Setenv(awstest.ContainersEnv, "1")
	t.Setenv(containers.RequireEnv, "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := awstest.Open(ctx)
	if !errors.Is(err, containers.ErrNoEngine) || !strings.Contains(err.Error(), "make containers") {
		t.Errorf("opened %v, %v; want an error that is %v and says how to get one", e, err, containers.ErrNoEngine)
	}
}

func TestEnviron_isWhatAnotherProcessNeeds(t *testing.T) {
	alone(t)
	t.Setenv("AWS_REGION", "eu-west-1")
	e := awstest.Start(t, awstest.WithEmulator())
	want := []string{
		"AWS_ENDPOINT_URL_KINESIS=" + e.KinesisEndpoint, "AWS_ENDPOINT_URL_DYNAMODB=" + e.DynamoDBEndpoint, "AWS_REGION=eu-west-1",
		"AWS_ACCESS_KEY_ID=000000000000", "AWS_SECRET_ACCESS_KEY=local", "AWS_SESSION_TOKEN=",
	}
	if got := e.Environ(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := aws.ToString(e.Config.BaseEndpoint); got != e.KinesisEndpoint {
		t.Errorf("other services go to %s, want %s", got, e.KinesisEndpoint)
	}
}

// TestConsumer is what a user's own test does, on whatever is there: variables, containers or the emulator.
func TestConsumer_readsEverythingThroughAReshard(t *testing.T) {
	t.Parallel()
	e := awstest.Start(t)
	stream := fmt.Sprintf("orders-%08x", rand.Uint32()) // variables may name a server on which other tests leave traces
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := dynamodb.NewFromConfig(e.Config).DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(stream + "-audit")}); err != nil {
			t.Log(err)
		}
	})
	e.CreateStream(t, stream, 2)
	first := []string{"a", "b", "c", "d", "e", "f"}
	put(t, e, stream, first...)

	client := kinesis.NewFromConfig(e.Config)
	shards, err := client.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &stream})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.MergeShards(t.Context(), &kinesis.MergeShardsInput{
		StreamName: &stream, ShardToMerge: shards.Shards[0].ShardId, AdjacentShardToMerge: shards.Shards[1].ShardId,
	}); err != nil {
		t.Fatal(err)
	}
	if err := kinesis.NewStreamExistsWaiter(client, func(o *kinesis.StreamExistsWaiterOptions) { o.MinDelay = 100 * time.Millisecond }).
		Wait(t.Context(), &kinesis.DescribeStreamInput{StreamName: &stream}, time.Minute); err != nil {
		t.Fatal(err)
	}
	second := []string{"g", "h", "i"}
	put(t, e, stream, second...)
	if got, want := consume(t, e, stream+"-audit", stream, 9), slices.Concat(first, second); !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// With an engine each service may have a container of its own; one configuration finds both.
func TestStart_takesDynamoDBLocalBesideLocalStack(t *testing.T) {
	t.Parallel()
	if err := containers.Engine(t.Context()); err != nil {
		if must, _ := containers.Required(); must {
			t.Fatal(err)
		}
		t.Skipf("NOT RUN: %v; %s", err, containers.Howto)
	}
	if os.Getenv(awstest.KinesisEnv) != "" || os.Getenv("AWS_ENDPOINT_URL") != "" {
		t.Skip("NOT RUN: the environment names other servers")
	}
	e := awstest.Start(t, awstest.WithDynamoDBLocal())
	if !strings.HasPrefix(e.Name, "Kinesis of "+containers.LocalStackImage) || !strings.Contains(e.Name, ", DynamoDB of "+containers.DynamoDBLocalImage) || e.KinesisEndpoint == e.DynamoDBEndpoint {
		t.Errorf("environment %s, want Kinesis of %s and DynamoDB of %s", e, containers.LocalStackImage, containers.DynamoDBLocalImage)
	}
	e.CreateStream(t, "orders", 1)
	put(t, e, "orders", "a", "b")
	if got, want := consume(t, e, "audit", "orders", 2), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	for service, want := range map[string]int{e.KinesisEndpoint: 0, e.DynamoDBEndpoint: 1} {
		out, err := dynamodb.NewFromConfig(e.Config, func(o *dynamodb.Options) { o.BaseEndpoint = &service }).ListTables(t.Context(), &dynamodb.ListTablesInput{})
		if err != nil || len(out.TableNames) != want {
			t.Errorf("tables at %s: %v, %v; want %d", service, out, err, want)
		}
	}
}

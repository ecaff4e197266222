package awstest

import (
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

func TestFromEnvironment_takesTheNearestVariableAndNeverAWS(t *testing.T) {
	t.Parallel()
	const a, b, c, aws = "http://a:1", "http://b:2", "http://c:3", "https://kinesis.eu-west-1.amazonaws.com"
	for _, test := range []struct {
		name              string
		env               map[string]string
		kinesis, dynamodb string
		wantErr           string
	}{
		{name: "nothing"},
		{"our own", map[string]string{KinesisEnv: a, DynamoDBEnv: b}, a, b, ""},
		{"one of our own", map[string]string{DynamoDBEnv: b}, "", b, ""},
		{"the SDK's, for both", map[string]string{sdkEnv: c}, c, c, ""},
		{"the SDK's, by service", map[string]string{sdkKinesisEnv: a, sdkDynamoDBEnv: b, sdkEnv: c}, a, b, ""},
		{"our own before the SDK's", map[string]string{KinesisEnv: a, sdkKinesisEnv: b, sdkEnv: c}, a, c, ""},
		{"the SDK ignores its own", map[string]string{KinesisEnv: a, sdkDynamoDBEnv: b, sdkEnv: c, sdkIgnoreEnv: "true"}, a, "", ""},
		{"AWS", map[string]string{KinesisEnv: aws}, "", "", AllowAWSEnv + "=1"},
		{"AWS by the SDK's variable", map[string]string{sdkEnv: aws}, "", "", AllowAWSEnv + "=1"},
		{"AWS forbidden", map[string]string{KinesisEnv: aws, AllowAWSEnv: "0"}, "", "", AllowAWSEnv + "=1"},
		{"AWS allowed", map[string]string{KinesisEnv: aws, DynamoDBEnv: b, AllowAWSEnv: "1"}, aws, b, ""},
		{"AWS perhaps", map[string]string{KinesisEnv: aws, AllowAWSEnv: "perhaps"}, "", "", `SHARDLEASE_ALLOW_AWS is "perhaps"`},
		{"no URL", map[string]string{KinesisEnv: "localhost:4566"}, "", "", `SHARDLEASE_KINESIS_ENDPOINT is "localhost:4566", want an http or https URL`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			kinesis, dynamodb, err := fromEnvironment(func(name string) string { return test.env[name] })
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil || kinesis.url != test.kinesis || dynamodb.url != test.dynamodb {
				t.Errorf("Kinesis %q, DynamoDB %q, %v; want %q, %q", kinesis.url, dynamodb.url, err, test.kinesis, test.dynamodb)
			}
		})
	}
}

// The SDK's clients have rules of their own about endpoints, which depend on the environment. Whatever it is, they go
// where the environment that was opened says, or it is not opened. (Not parallel: it changes the environment.)
func TestConfigure_sendsEachClientToItsPlace(t *testing.T) {
	k, d := place{url: "http://kinesis.invalid:1"}, place{url: "http://dynamodb.invalid:2"}
	variables := []string{sdkEnv, sdkKinesisEnv, sdkDynamoDBEnv}
	for set := range 1 << len(variables) {
		env := map[string]string{}
		for i, name := range variables {
			t.Setenv(name, "http://elsewhere.invalid:3") // and back when the test is over
			if set&(1<<i) != 0 {
				env[name] = "http://elsewhere.invalid:3"
			} else if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
		for _, places := range [][2]place{{k, d}, {k, k}} {
			var e Environment
			stop, err := e.configure(t.Context(), os.LookupEnv, places[0], places[1])
			if refused := places[0] != places[1] && set == 1; refused {
				if err == nil || !strings.Contains(err.Error(), sdkEnv) {
					t.Errorf("%v: error %v, want one that names %s", env, err, sdkEnv)
				}
				continue
			}
			if err != nil {
				t.Errorf("%v: %v", env, err)
				continue
			}
			if got := *kinesis.NewFromConfig(e.Config).Options().BaseEndpoint; got != places[0].url {
				t.Errorf("%v: Kinesis goes to %s, want %s", env, got, places[0].url)
			}
			if got := *dynamodb.NewFromConfig(e.Config).Options().BaseEndpoint; got != places[1].url {
				t.Errorf("%v: DynamoDB goes to %s, want %s", env, got, places[1].url)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	}
}

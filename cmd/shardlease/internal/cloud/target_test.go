package cloud

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// environment hides what the machine knows of AWS. The tests change the environment and therefore are not parallel.
func environment(t *testing.T, set map[string]string) {
	t.Helper()
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
		"AWS_ENDPOINT_URL_KINESIS", "AWS_ENDPOINT_URL_DYNAMODB",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		t.Setenv(name, set[name])
	}
	none := t.TempDir() + "/none"
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func TestLoad_fillsInWhatALocalServerNeedsAndAWSDoesNot(t *testing.T) {
	own := map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"}
	for _, c := range []struct {
		name     string
		env      map[string]string
		region   string // of the flag
		endpoint string
		wantKey  string // empty: none
		wantIn   string
	}{
		{"local", nil, "", "http://127.0.0.1:4567", LocalKey, LocalRegion},
		{"local, region given", nil, "ap-south-1", "http://127.0.0.1:4567", LocalKey, "ap-south-1"},
		{"local, environment speaks", own, "", "http://127.0.0.1:4567", "AKIDEXAMPLE", "eu-west-1"},
		{"AWS", own, "", "", "AKIDEXAMPLE", "eu-west-1"},
		{"AWS, region given", own, "us-west-2", "", "AKIDEXAMPLE", "us-west-2"},
		{"AWS by a private endpoint", nil, "us-west-2", "https://vpce-1.kinesis.us-west-2.vpce.amazonaws.com", "", "us-west-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			environment(t, c.env)
			cfg, err := load(t.Context(), c.region, c.endpoint)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Region != c.wantIn || aws.ToString(cfg.BaseEndpoint) != c.endpoint {
				t.Errorf("region %q, endpoint %q; want %q, %q", cfg.Region, aws.ToString(cfg.BaseEndpoint), c.wantIn, c.endpoint)
			}
			key := ""
			if got, err := cfg.Credentials.Retrieve(t.Context()); err == nil {
				key = got.AccessKeyID
			}
			if key != c.wantKey {
				t.Errorf("access key %q, want %q", key, c.wantKey)
			}
		})
	}
}

func TestLoad_wantsARegionForAWS(t *testing.T) {
	environment(t, nil)
	if cfg, err := load(t.Context(), "", ""); err == nil {
		t.Errorf("region %q, want an error", cfg.Region)
	}
}

func TestLoad_refusesAnEndpointOfTheEnvironmentThatIsNoURL(t *testing.T) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS", "AWS_ENDPOINT_URL_DYNAMODB"} {
		environment(t, map[string]string{name: "127.0.0.1:4567", "AWS_REGION": "eu-west-1"})
		if _, err := load(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), name+` is "127.0.0.1:4567", want an http or https URL`) {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := load(t.Context(), "", "http://127.0.0.1:4567"); err != nil {
			t.Errorf("%s, and an endpoint of its own: %v", name, err)
		}
	}
}

func TestFlags_sayWhereRequestsGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags Flags
		want  string
	}{
		{Flags{}, "Kinesis at the environment's endpoint and DynamoDB at the environment's endpoint"},
		{Flags{KinesisFlags: KinesisFlags{Endpoint: "http://a"}}, "Kinesis at http://a and DynamoDB at http://a"},
		{Flags{KinesisFlags: KinesisFlags{KinesisEndpoint: "http://a"}, DynamodbEndpoint: "http://b"}, "Kinesis at http://a and DynamoDB at http://b"},
	} {
		if got := c.flags.String(); got != c.want {
			t.Errorf("%+v goes to %q, want %q", c.flags, got, c.want)
		}
	}
}

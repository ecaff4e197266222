package awshttp_test

import (
	"testing"

	"github.com/shardlease/shardlease/internal/awshttp"
)

func TestIsAWS_knowsItsDomains(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"kinesis.us-east-1.amazonaws.com": true, "Kinesis.CN-North-1.amazonaws.com.cn.": true, "kinesis.us-east-1.api.aws": true,
		"vpce-1.kinesis.us-west-2.vpce.amazonaws.com": true, "dynamodb.eusc-de-east-1.amazonaws.eu": true,
		"kinesis.us-iso-east-1.c2s.ic.gov": true, "kinesis.us-isob-east-1.sc2s.sgov.gov": true, "kinesis.eu-isoe-west-1.cloud.adc-e.uk": true,
		"localhost": false, "127.0.0.1": false, "localhost.localstack.cloud": false, "amazonaws.com.example.org": false, "host.docker.internal": false,
	} {
		if got := awshttp.IsAWS(host); got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}

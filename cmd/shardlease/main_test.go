package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/demo"
)

// TestMain lets the test's own binary be what the demo starts as a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "demo-worker" {
		main()
	}
	os.Exit(m.Run())
}

// result is what a command left behind.
type result struct {
	code     int
	out, err string
}

func command(ctx context.Context, in string, args ...string) result {
	var out, err bytes.Buffer
	code := run(ctx, args, streams{strings.NewReader(in), &out, &err})
	return result{code, out.String(), err.String()}
}

func TestRun_answersErrorsOfUseInOneLineThatSaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{`expected one of "demo", "consume", "put", "consumers", "emulator"`}},
		{"frobnicate", []string{"frobnicate", "demo, consume, put, consumers, emulator"}},
		{"demo --wrokers 3", []string{"unknown flag --wrokers", "--workers", "--shards", "--records", "--reshard", "--seed"}},
		{"demo --workers three", []string{"--workers", "three", "int"}},
		{"demo --workers 1", []string{"--workers is 1, want 2 to 20"}},
		{"demo --shards 0 --records 5", []string{"--shards is 0, want 1 to 100", "; ", "--records is 5, want 1000 to 10000000"}},
		{"demo --reshard 51", []string{"--reshard is 51, want 0 to 50"}},
		{"demo extra", []string{"unexpected argument extra"}},
		{"demo --seed -1", []string{"--seed"}},
		{"consume", []string{"--stream is missing, want a stream's name; --app is missing, want an application's name"}},
		{"consume --stream s", []string{"--app is missing"}},
		{"consume --stream= --app a", []string{"--stream is missing"}},
		{"consume --stream s --app a --start yesterday", []string{`"yesterday" is no position`, "trim-horizon, latest, or a time such as 2026-01-02T15:04:05Z"}},
		{"consume --stream s --app a --output xml", []string{"--output", "json", "data", "xml"}},
		{"consume --stream s --app a --endpoint http://h --kinesis-endpoint http://h", []string{"--endpoint and --kinesis-endpoint were both given"}},
		{"consume --stream s --app a --endpoint http://h --dynamodb-endpoint http://h", []string{"--endpoint and --dynamodb-endpoint were both given"}},
		{"consume --stream s --app a --endpoint localhost:4567", []string{`--endpoint is "localhost:4567", want an http or https URL`}},
		{"consume --stream s --app a --dynamodb-endpoint ://", []string{"--dynamodb-endpoint is", "want an http or https URL"}},
		{"consume --stream s --app a --max-leases=-1 --endpoint http://h", []string{"--max-leases is -1"}},
		{"consume --stream s --app a --failover-time soon", []string{"--failover-time", "soon"}},
		{"consume --stream s --app a --failover-time 1ms --endpoint http://127.0.0.1:1", []string{"--failover-time is 1ms, want 500ms to 10m0s"}},
		{"consume --stream s --stream t/u --app a --endpoint http://127.0.0.1:1", []string{`--stream is "t/u", want 1 to 128 characters`}},
		{"consume --stream arn:aws:kinesis:x --app a --endpoint http://127.0.0.1:1", []string{`--stream is "arn:aws:kinesis:x", want arn:aws:kinesis:REGION`}},
		{"consume --stream s/t --app a --failover-time 1ms --endpoint http://127.0.0.1:1", []string{"--failover-time is 1ms", "; ", `--stream is "s/t"`}},
		{"consume --stream s --stream s --app abc", []string{`--stream is "s", want each stream once: another one is or may be the same`}},
		{"consume --stream arn:aws:kinesis:us-east-1:123456789012:stream/s --stream arn:aws:kinesis:eu-west-1:123456789012:stream/s --app abc", []string{
			`--stream is "arn:aws:kinesis:eu-west-1:123456789012:stream/s", want one in region us-east-1, as the one before`,
		}},
		{"consume --stream s --app a", []string{`--app is "a", want 3 to 255 characters`}},
		{"consume --stream s --app abc --failover-time 0s", []string{"--failover-time is 0s, want 500ms to 10m0s"}},
		{"consume --stream s --app abc --worker-id=", []string{"--worker-id: it is empty, want a value; leave the flag out for the default"}},
		{"consume --stream s --app abc --endpoint=", []string{"--endpoint: it is empty"}},
		{"consume --stream s --app abc --dynamodb-endpoint=", []string{"--dynamodb-endpoint: it is empty"}},
		{"consume --stream s --app abc --endpoint http://127.0.0.1:99999", []string{`--endpoint is "http://127.0.0.1:99999", want a port from 1 to 65535`}},
		{"consume --stream s --app abc --endpoint http://:80", []string{`--endpoint is "http://:80", want an http or https URL`}},
		{"put --stream s --region=", []string{"--region: it is empty"}},
		{"put --stream s/t", []string{`--stream is "s/t", want 1 to 128 characters`}},
		{"put --stream arn:aws:kinesis:x", []string{`--stream is "arn:aws:kinesis:x", want arn:aws:kinesis:REGION`}},
		{"put --region eu-west-1 --endpoint http://127.0.0.1:1 --stream arn:aws:kinesis:us-east-1:123456789012:stream/orders", []string{"want one in region eu-west-1"}},
		{"consumers --region eu-west-1 --endpoint http://127.0.0.1:1 --stream arn:aws:kinesis:us-east-1:123456789012:stream/orders", []string{"want one in region eu-west-1"}},
		{"consumers deregister --region eu-west-1 --endpoint http://127.0.0.1:1 --stream arn:aws:kinesis:us-east-1:123456789012:stream/orders x", []string{"want one in region eu-west-1"}},
		{"put", []string{"--stream is missing, want a stream's name"}},
		{"put --stream= x", []string{"--stream is missing"}},
		{"put --stream s --stream t", []string{`--stream: given more than once, "t" after "s", want one stream`}},
		{"consumers --stream s --stream t", []string{`--stream: given more than once, "t" after "s", want one stream`}},
		{"consumers deregister --stream s --stream t x", []string{`--stream: given more than once, "t" after "s", want one stream`}},
		{"consumers --stream arn:aws:kinesis:x", []string{`--stream is "arn:aws:kinesis:x", want arn:aws:kinesis:REGION:ACCOUNT:stream/NAME`}},
		{"consumers --stream=", []string{"--stream is missing, want a stream's name"}},
		{"consume --stream s --app abc --max-leases -1", []string{"--max-leases is -1, want at least 1, or 0 for no limit"}},
		{"put --stream s --aggregate -5", []string{"--aggregate is -5, want 1 to 100000 lines"}},
		{"consume --stream s --app abc --until-caught-up -5", []string{"--until-caught-up", "-5"}},
		{"put --stream s -- -5 -6", []string{"unexpected argument -6"}},
		{"help frobnicate", []string{"frobnicate", "demo, consume, put, consumers, emulator"}},
		{"put --stream s --endpoint nowhere", []string{"--endpoint is \"nowhere\", want an http or https URL"}},
		{"put --stream s --aggregate=-1", []string{"--aggregate is -1, want 1 to 100000 lines"}},
		{"put --stream s --aggregate 0", []string{"--aggregate is 0, want 1 to 100000 lines"}},
		{"put --stream arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/x", []string{"want a stream of Kinesis: this command reads no other"}},
		{"consumers --stream arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/x", []string{"want a stream of Kinesis: this command reads no other"}},
		{"consume --app a --stream arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/x", []string{`--stream is "arn:aws:dynamodb:`, "want a stream of Kinesis: this command reads no other", "docs/dynamodb-streams.md"}},
		{"consume --app abc --region eu-west-1 --endpoint http://127.0.0.1:1 --stream arn:aws:kinesis:us-east-1:123456789012:stream/orders", []string{
			`--stream is "arn:aws:kinesis:us-east-1:123456789012:stream/orders", want one in region eu-west-1`, "or --region us-east-1",
		}},
		{"put --stream s --key-field=", []string{"--key-field is empty, want the name of a field"}},
		{"put --stream s a b", []string{"unexpected argument b"}},
		{"put --stream s --dynamodb-endpoint http://h", []string{"unknown flag --dynamodb-endpoint", "--kinesis-endpoint"}},
		{"emulator --listen nowhere", []string{`--listen is "nowhere", want HOST:PORT`}},
		{"emulator --listen 127.0.0.1:99999", []string{`"99999"`, "65535"}},
		{"emulator --stream orders", []string{`"orders" is not a stream, want NAME:SHARDS`}},
		{"emulator --stream=", []string{`"" is not a stream, want NAME:SHARDS`}},
		{"emulator --stream orders:0", []string{`"orders:0" is not a stream`}},
		{"emulator --listen 127.0.0.1:0 --stream a:1 --stream a:2 --stream b/c:1", []string{`"a"`, "; ", `"b/c"`}},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), "", strings.Fields(c.args)...)
			if got.code != exitUsage || got.out != "" {
				t.Errorf("exit code %d, output %q; want %d and none", got.code, got.out, exitUsage)
			}
			if strings.Count(got.err, "\n") != 1 || !strings.HasPrefix(got.err, "shardlease: ") {
				t.Errorf("error = %q, want one line", got.err)
			}
			for _, part := range c.want {
				if !strings.Contains(got.err, part) {
					t.Errorf("error = %q\nwant it to contain %q", got.err, part)
				}
			}
		})
	}
}

func TestRun_helpsAndTellsItsVersion(t *testing.T) {
	t.Parallel()
	for args, parts := range map[string][]string{
		"--help":                    {"demo", "consume", "put", "consumers", "emulator"},
		"help":                      {"demo", "consume", "put", "consumers", "emulator"},
		"help consume":              {"--until-caught-up", "trim-horizon", "data_base64", "us-east-1"},
		"help consumers deregister": {"--stream"},
		"demo --help":               {"--records", "100000", "--reshard", "UpdateShardCount", "--seed"},
		"consume --help":            {"--until-caught-up", "trim-horizon", "data_base64", "us-east-1"},
		"put --help":                {"--key-field", "1 MiB", "stored twice"},
		"emulator --help":           {"127.0.0.1:4567", "NAME:SHARDS"},
		"--version":                 {"shardlease ", "go1."},
	} {
		got := command(t.Context(), "", strings.Fields(args)...)
		if got.code != exitOK || got.err != "" {
			t.Errorf("%s: exit code %d, errors %q; want 0 and none", args, got.code, got.err)
		}
		flat := strings.Join(strings.Fields(got.out), " ")
		for _, part := range parts {
			if !strings.Contains(flat, part) {
				t.Errorf("%s printed\n%s\nwant it to contain %q", args, got.out, part)
			}
		}
		if strings.Contains(got.out, "demo-worker") {
			t.Errorf("%s shows what is the demo's own: %s", args, got.out)
		}
	}
}

func TestPut_namesAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), "", "put", "--stream", "s", "--endpoint", "http://127.0.0.1:1", "no-such-file.json")
	if got.code != exitFailed || !strings.Contains(got.err, "no-such-file.json") || strings.Count(got.err, "\n") != 1 {
		t.Errorf("exit code %d, error %q; want 1 and one line that names the file", got.code, got.err)
	}
}

// TestDemo_ofAFleetOfProcessesLosesNothing takes some 18 s, in which it mostly waits.
func TestDemo_ofAFleetOfProcessesLosesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out by -short: a fleet of processes takes 18 s; the full run and the demo itself have it")
	}
	rows := regexp.MustCompile(`(?m)^  rows (\d+), open shards (\d+)$`)
	for name, c := range map[string]struct {
		args string
		want []string // beside what every run has: among many reshards a worker may read its last shard to the end before it can move
	}{
		"the usual": {"--seed 3", []string{
			"--seed 3", "split of shard ", "merge of shard ", "worker-4 took shard", "takeover time after kill -9", "handoff gap after graceful stop",
		}},
		"20 reshards": {"--seed 5 --reshard 20", []string{"--seed 5", "split of shard ", "merge of shard ", "scaling from "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), "", append([]string{"demo", "--records", "2000"}, strings.Fields(c.args)...)...)
			if got.code != exitOK {
				t.Errorf("exit code %d, want 0; errors: %s", got.code, got.err)
			}
			lines := strings.Split(got.out, "\n")
			for _, want := range []string{"  produced 2000", "  delivered 2000", "  lost 0", "  out of order 0"} {
				if !slices.Contains(lines, want) {
					t.Errorf("no line %q", want)
				}
			}
			if m := rows.FindStringSubmatch(got.out); m == nil || m[1] != m[2] {
				t.Errorf("rows and open shards at the end: %q, want as many of each", m)
			}
			for _, want := range append(c.want,
				"FailoverTime is "+demo.FailoverTime.String(), "Cleanup.Interval "+demo.CleanupInterval.String(), "kill -9 of worker-",
				"graceful stop of worker-", "worker-4 joins",
			) {
				if !strings.Contains(got.out, want) {
					t.Errorf("nothing about %q", want)
				}
			}
			if t.Failed() {
				t.Logf("it printed\n%s", got.out)
			}
		})
	}
}

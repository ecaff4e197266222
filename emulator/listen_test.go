package emulator_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

// listening is a world whose clients go through a port, under the name "remote".
func listening(t *testing.T) (w *world, url string) {
	t.Helper()
	w = setup(t)
	url, stop, err := w.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); stop() })
	w.kinesis, w.dynamodb = clients(remote(url))
	return w, url
}

func remote(url string) aws.Config {
	return aws.Config{
		Region: emulator.Region, BaseEndpoint: &url, HTTPClient: readOnlyBodies{http.DefaultClient},
		Credentials: credentials.NewStaticCredentialsProvider("remote", "secret", ""),
	}
}

// readOnlyBodies hides the WriteTo of the SDK's request bodies, which makes net/http close a connection while the answer
// is being read: smithy-go closes the body when the header is there, and net/http takes what WriteTo says then for a
// failed write.
type readOnlyBodies struct{ next *http.Client }

func (c readOnlyBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.next.Do(r)
}

func TestListen_servesBothServices(t *testing.T) {
	t.Parallel()
	w, _ := listening(t)
	w.put(t, "x")
	w.table(t)
	if n := w.count(t); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	if got := w.Counts().Of(emulator.CountKey{Client: "remote"}).Requests; got != 4 {
		t.Errorf("%d requests of client remote, want 4", got)
	}
}

func TestListen_streamsEvents(t *testing.T) {
	t.Parallel()
	w, _ := listening(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, _ := w.subscribe(ctx, t)
	for _, want := range []string{"a", "b"} {
		w.put(t, want)
		if got := string(event(t, stream).Records[0].Data); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	cancel()
	_ = stream.Close()
}

func TestListen_breaksConnectionsAsRulesSay(t *testing.T) {
	t.Parallel()
	w, _ := listening(t)
	for _, c := range []struct {
		name   string
		effect emulator.Effect
		stored int
	}{
		{"refuse", emulator.Refuse(), 0},
		{"drop", emulator.DropReply(), 1},
		{"cut", emulator.CutBody(3), 2},
	} {
		remove := w.Inject(emulator.Rule{Client: "remote", Operation: "PutRecord", Effect: c.effect})
		_, err := w.kinesis.PutRecord(t.Context(), putInput("x"))
		remove()
		if err == nil || code(err) != "" {
			t.Errorf("%s: error %v, want one of the connection", c.name, err)
		}
		if c.name == "cut" && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut: error %v, want an unexpected end", err)
		}
		if n := w.count(t); n != c.stored {
			t.Errorf("%s: %d records, want %d", c.name, n, c.stored)
		}
	}
}

func TestListen_speaksHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	_, url := listening(t)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "Kinesis_20131202.ListStreams")
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.ProtoMajor != 2 || !strings.Contains(string(body), `"orders"`) {
		t.Errorf("%s over %s: %s, %v", resp.Status, resp.Proto, body, err)
	}
}

func TestListen_stopEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := setup(t)
	url, stop, err := w.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.kinesis, _ = clients(remote(url))
	stream, _ := w.subscribe(t.Context(), t)
	defer stream.Close()
	stop()
	for range stream.Events() { // ends
	}
	if _, err := w.kinesis.GetShardIterator(t.Context(), iteratorInput(firstShard, types.ShardIteratorTypeLatest)); err == nil {
		t.Error("the port still answers")
	}
}

func TestListen_onEveryAddressNamesOneThatClientsCanUse(t *testing.T) {
	t.Parallel()
	url, stop, err := emulator.New().Listen("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("the address for clients is %s", url)
	}
}

func TestListen_saysWhichAddressItCannotHave(t *testing.T) {
	t.Parallel()
	_, url := listening(t)
	addr := strings.TrimPrefix(url, "http://")
	if _, _, err := emulator.New().Listen(addr); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v, want one that names %s", err, addr)
	}
}

func TestServer_isAnHTTPHandler(t *testing.T) {
	t.Parallel()
	w := setup(t)
	server := httptest.NewServer(w.Server)
	defer server.Close()
	k := kinesis.NewFromConfig(w.AWSConfig(), func(o *kinesis.Options) { o.BaseEndpoint, o.HTTPClient = &server.URL, readOnlyBodies{server.Client()} })
	if _, err := k.PutRecord(t.Context(), putInput("x")); err != nil {
		t.Error(err)
	}
}

func TestCreateStream_saysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := emulator.New()
	if err := server.CreateStream("orders", 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		shards int
		want   []string
	}{
		{"orders", 2, []string{"orders", "already exists"}},
		{"no spaces allowed", 1, []string{"no spaces allowed", "StreamName"}},
		{"none", 0, []string{"none", "ShardCount is 0", "10000"}},
	} {
		err := server.CreateStream(c.name, c.shards)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %d shards: error %v, want one with %q", c.name, c.shards, err, want)
			}
		}
	}
}

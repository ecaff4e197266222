package config

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ordersARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"

func TestValidate_ofSeveralStreamsSaysFieldValueAndBound(t *testing.T) {
	t.Parallel()
	one := func(s StreamConfig) func(*Config) {
		return func(c *Config) { c.Streams = []StreamConfig{s} }
	}
	for _, c := range []struct {
		change func(c *Config)
		want   string // empty: valid
	}{
		{func(c *Config) {}, ``},
		{func(c *Config) { c.StreamName = "orders" }, `StreamName is "orders", want none beside Streams`},
		{func(c *Config) { c.StreamARN = ordersARN }, `StreamARN is "` + ordersARN + `", want none beside Streams`},
		{func(c *Config) { c.InitialPosition = Latest() }, `InitialPosition is LATEST, want none beside Streams, where each stream has its own`},
		{one(StreamConfig{}), `Streams[0].StreamName is "", want 1 to 128 ` + names},
		{one(StreamConfig{StreamName: "a b"}), `Streams[0].StreamName is "a b", want 1 to 128 ` + names},
		{one(StreamConfig{StreamARN: ordersARN}), ``},
		{one(StreamConfig{StreamARN: "x"}), `Streams[0].StreamARN is "x", want arn:aws:kinesis:REGION:ACCOUNT:stream/NAME`},
		{one(StreamConfig{StreamARN: ordersARN, StreamName: "bills"}), `Streams[0].StreamName is "bills", want "orders" as in StreamARN, or no name`},
		{one(StreamConfig{StreamName: "a", AccountID: "12"}), `Streams[0].AccountID is "12", want 12 digits`},
		{one(StreamConfig{StreamARN: ordersARN, AccountID: "000000000000"}), `Streams[0].AccountID is "000000000000", want "123456789012" as in StreamARN, or none`},
		{one(StreamConfig{StreamName: "a", CreationEpoch: -1}), `Streams[0].CreationEpoch is -1, want Unix seconds from 1 on, or 0 to ask the service`},
		{
			one(StreamConfig{StreamName: "a", InitialPosition: AtTimestamp(time.Unix(-1, 0))}),
			`Streams[0].InitialPosition is AT_TIMESTAMP 1969-12-31T23:59:59Z, want a time from 1970-01-01T00:00:00Z on`,
		},
		{
			func(c *Config) { c.Streams = append(c.Streams, StreamConfig{StreamName: "a", CreationEpoch: 5}) },
			`Streams[2] is "a", want each stream once: Streams[0] is or may be the same`,
		},
		{
			func(c *Config) {
				c.Streams = []StreamConfig{{StreamARN: ordersARN}, {StreamARN: strings.Replace(ordersARN, "eu-west-1", "us-east-1", 1)}}
			},
			`Streams[1] is "` + strings.Replace(ordersARN, "eu-west-1", "us-east-1", 1) + `", want each stream once: Streams[0], "` + ordersARN + `", may be the same: ` +
				`the key of a lease has the account, the name and the CreationEpoch of a stream and no region, so that a CreationEpoch of its own for each of the two tells them apart`,
		},
		{
			func(c *Config) {
				c.Streams = []StreamConfig{{StreamARN: ordersARN, CreationEpoch: 1}, {StreamARN: strings.Replace(ordersARN, "eu-west-1", "us-east-1", 1), CreationEpoch: 2}}
			}, ``,
		},
		{
			func(c *Config) {
				c.Streams = []StreamConfig{{StreamName: "a", CreationEpoch: 4}, {StreamName: "a", CreationEpoch: 5}}
			}, ``,
		},
		{func(c *Config) { c.FormerStreams.Deletion = "Burn" }, `FormerStreams.Deletion is "Burn", want KeepLeases, DeleteAfterWait or DeleteListed`},
		{func(c *Config) { c.FormerStreams.Wait = time.Millisecond }, `FormerStreams.Wait is 1ms, want 1s to 720h0m0s`},
		{
			func(c *Config) { c.FormerStreams.Listed = []string{"1:a:1"} },
			`FormerStreams.Listed is 1 streams, want none unless Deletion is DeleteListed`,
		},
		{
			func(c *Config) {
				c.FormerStreams = FormerStreamsConfig{Deletion: DeleteListed, Listed: []string{"1:a:1", "a"}}
			},
			`FormerStreams.Listed[1] is "a", want account:name:epoch with an epoch above 0`,
		},
		{
			func(c *Config) {
				c.Streams, c.StreamName, c.FormerStreams.Deletion = nil, "orders", DeleteAfterWait
			},
			`FormerStreams is set, want nothing without Streams or a StreamTracker: a worker of one stream has no others`,
		},
	} {
		cfg := Default("app", "")
		cfg.Streams = []StreamConfig{{StreamName: "a"}, {StreamName: "b", CreationEpoch: 7}}
		c.change(&cfg)
		got := ""
		if err := cfg.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Validate: %s\nwant:     %s", got, c.want)
		}
	}
}

func TestValidateTracked_wantsNoStreams(t *testing.T) {
	t.Parallel()
	cfg := Default("app", "")
	if err := cfg.ValidateTracked(); err != nil {
		t.Error(err)
	}
	cfg.Streams, cfg.StreamName = []StreamConfig{{StreamName: "a"}}, "b"
	want := "Streams is 1 streams, want none beside a StreamTracker\n" + `StreamName is "b", want none beside a StreamTracker`
	if err := cfg.ValidateTracked(); err == nil || err.Error() != want {
		t.Errorf("ValidateTracked: %v\nwant: %v", err, want)
	}
}

func TestStreamIdentifier_isReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := StreamIdentifier{
			AccountID:     rapid.StringMatching(`[0-9]{1,14}`).Draw(t, "account"),
			StreamName:    rapid.StringMatching(`[a-zA-Z0-9_.-]{1,128}`).Draw(t, "name"),
			CreationEpoch: rapid.Int64Min(1).Draw(t, "epoch"),
		}
		if got, err := ParseStreamIdentifier(id.String()); err != nil || got != id {
			t.Errorf("%q is read as %+v, %v", id, got, err)
		}
	})
	for _, s := range []string{"", "orders", "a:orders:1", "1:orders:0", "1:orders:-1", "1:orders:x", "1::1", "1:a:b:1", "1:orders:99999999999999999999"} {
		if id, err := ParseStreamIdentifier(s); err == nil || !strings.Contains(err.Error(), `"`+s+`"`) {
			t.Errorf("%q is read as %+v, %v; want an error that names it", s, id, err)
		}
	}
}

func TestStreamConfig_isOfTheStreamsThatItDoesNotExclude(t *testing.T) {
	t.Parallel()
	id := StreamIdentifier{AccountID: "123456789012", StreamName: "orders", CreationEpoch: 9}
	for _, c := range []struct {
		of   StreamConfig
		want bool
	}{
		{StreamConfig{StreamName: "orders"}, true},
		{StreamConfig{StreamName: "order"}, false},
		{StreamConfig{StreamARN: ordersARN}, true},
		{StreamConfig{StreamName: "orders", AccountID: "000000000000"}, false},
		{StreamConfig{StreamName: "orders", CreationEpoch: 9}, true},
		{StreamConfig{StreamName: "orders", CreationEpoch: 8}, false},
	} {
		if got := c.of.IsOf(id); got != c.want {
			t.Errorf("%+v is of %s: %t", c.of, id, got)
		}
	}
	if _, whole := (StreamConfig{StreamARN: ordersARN}).Identifier(); whole {
		t.Error("an identifier without an epoch is said to be whole")
	}
	if got, whole := (StreamConfig{StreamARN: ordersARN, CreationEpoch: 9}).Identifier(); got != id || !whole {
		t.Errorf("identifier %v, whole %t", got, whole)
	}
}

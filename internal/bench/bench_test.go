package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func into(out *strings.Builder) printer {
	return func(format string, args ...any) { fmt.Fprintf(out, format, args...) }
}

func TestSpeed_comparesEveryContender(t *testing.T) {
	t.Parallel()
	small := []workload{
		{name: "plain", size: 10, perShard: 20, packed: 1},
		{name: "aggregates", size: 10, perShard: 3, packed: 30},
	}
	var out strings.Builder
	if err := speed(t.Context(), settings{rounds: 1, drains: 2}, small, into(&out)); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders() {
		want := len(small)
		if c.packed {
			want--
		}
		if got := strings.Count(out.String(), " "+c.name+"  "); got != want {
			t.Errorf("%s is reported %d times, want %d, in\n%s", c.name, got, want, out.String())
		}
	}
}

func TestMemory_measuresBothScenarios(t *testing.T) {
	t.Parallel()
	for scenario, want := range map[string]string{catchUp: "fetched and not handled at most", idle: "4 shards, each read"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			s := settings{child: scenario, shards: 4, settle: 60 * time.Millisecond}
			server, err := serverFor(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			url, stop, err := server.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			s.endpoint = url
			var out strings.Builder
			if err := child(t.Context(), s, into(&out)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		})
	}
}

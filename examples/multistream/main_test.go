package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardlease/shardlease/examples/internal/emulated"
)

func TestMultistream_readsEachStreamFromTheEmulator(t *testing.T) {
	t.Parallel()
	w := emulated.New(t, "--stream", "orders:2", "--stream", "bills:1")
	w.Shardlease("1\n2\n3\n4\n5\n", "put", "--stream", "orders")
	w.Shardlease("6\n7\n", "put", "--stream", "bills")
	lines := w.Example().Prints(7, "orders", "bills")
	var got []string
	for _, line := range lines {
		stream, _, _ := strings.Cut(line, ",")
		_, data, _ := strings.Cut(line, ": ")
		got = append(got, stream+" "+data)
	}
	slices.Sort(got)
	want := []string{"bills 6", "bills 7", "orders 1", "orders 2", "orders 3", "orders 4", "orders 5"}
	if !slices.Equal(got, want) {
		t.Errorf("it printed %q, want lines of %q", lines, want)
	}
}

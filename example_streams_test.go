package shardlease_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// registry is a StreamTracker: a list of streams that somebody else keeps.
type registry struct {
	mu    sync.Mutex
	names []string
}

func (r *registry) Streams(context.Context) (streams []config.StreamConfig, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.names {
		streams = append(streams, config.StreamConfig{StreamName: name})
	}
	return streams, nil
}

// One worker reads two streams that a tracker names. It talks to the emulator over HTTP, as it would to the one that
// "shardlease emulator --stream orders:2 --stream bills:1" serves.
func ExampleWithStreamTracker() {
	server := emulator.New()
	for name, shards := range map[string]int{"orders": 2, "bills": 1} {
		if err := server.CreateStream(name, shards); err != nil {
			log.Fatal(err)
		}
	}
	url, closeServer, err := server.Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer closeServer()
	cloud := aws.Config{
		Region: "us-east-1", BaseEndpoint: &url, HTTPClient: &http.Client{},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	api := kinesis.NewFromConfig(cloud)
	for i := range 30 {
		stream := []string{"orders", "orders", "bills"}[i%3]
		if _, err := api.PutRecord(ctx, &kinesis.PutRecordInput{
			StreamName: &stream, PartitionKey: aws.String(strconv.Itoa(i)), Data: fmt.Append(nil, i),
		}); err != nil {
			fmt.Println(err)
			return
		}
	}

	var mu sync.Mutex
	got := map[string]int{}
	count := func(s processor.Shard) processor.RecordProcessor {
		return processor.Each(func(context.Context, processor.Record) error {
			mu.Lock()
			defer mu.Unlock()
			if got[s.Stream]++; got["orders"]+got["bills"] == 30 {
				stop()
			}
			return nil
		})(s)
	}
	w, err := shardlease.New(config.Default("audit", ""), cloud, count,
		shardlease.WithStreamTracker(&registry{names: []string{"orders", "bills"}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("orders:", got["orders"], "bills:", got["bills"])
	// Output: orders: 20 bills: 10
}

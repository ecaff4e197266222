// The command others drains one stream with a worker of shardlease and with two other Go libraries, in turns, and prints records for each
// second of processor time.
//
//	cd internal/bench/others && go run . -rounds 5
//
// The server is the emulator in a process of its own, reached over a socket, so that only a library's work is counted. Each library is
// used as its README shows, with a table for its checkpoints if it has one, and checkpoints each batch. What counts is processor time: each
// library waits between its reads as it likes to, and by the clock these pauses would be most of what is measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

const shards = 16

// workload is what lies in a stream.
type workload struct {
	name, stream string
	perShard     int // Kinesis records
	packed       int // user records of 200 B in each
}

func (w workload) total() int64 { return int64(shards * w.perShard * w.packed) }

var workloads = []workload{
	{"plain 200 B", "plain", 20_000, 1},
	{"aggregates of 100 x 200 B", "packed", 500, 100},
}

// contender drains a stream from its beginning under an application name that is new. It calls taken for each user record, and has ended when
// it returns, which is some time after ctx is done.
type contender struct {
	name  string
	drain func(ctx context.Context, endpoint, app, stream string, packed bool, taken func([]byte)) error
}

var contenders = []contender{
	{"shardlease", drainShardlease},
	{"vmware-go-kcl-v2 v1.0.0", drainVMware},
	{"harlow/kinesis-consumer v0.3.5", drainHarlow},
}

func main() {
	rounds := flag.Int("rounds", 5, "times that everything is drained")
	serve := flag.Bool("serve", false, "be the server")
	flag.Parse()
	err := error(nil)
	if *serve {
		err = server()
	} else {
		err = compare(*rounds)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// server prints its address and serves until its input ends.
func server() error {
	url, stop, err := emulator.New().Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println(url)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func compare(rounds int) error {
	cmd := exec.Command(os.Args[0], "-serve")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	var endpoint string
	if _, err := fmt.Fscanln(out, &endpoint); err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	ctx := context.Background()
	for _, w := range workloads {
		if err := fill(ctx, endpoint, w); err != nil {
			return fmt.Errorf("fill stream %s: %w", w.stream, err)
		}
		figures := make([][]float64, len(contenders))
		for round := range rounds {
			for i := range contenders {
				n := (i + round) % len(contenders)
				rate, err := measure(ctx, endpoint, fmt.Sprintf("app-%s-%d-%d", w.stream, round, n), w, contenders[n])
				if err != nil {
					return fmt.Errorf("%s: %w", contenders[n].name, err)
				}
				figures[n] = append(figures[n], rate)
			}
		}
		fmt.Printf("%s: %d user records in %d shards, medians of %d rounds\n", w.name, w.total(), shards, rounds)
		ours := median(figures[0])
		for n, c := range contenders {
			m := median(figures[n])
			fmt.Printf("  %-32s %10.0f records a second of CPU (%.0f … %.0f)  shardlease is %.2f x\n", c.name, m, slices.Min(figures[n]), slices.Max(figures[n]), ours/m)
		}
	}
	return nil
}

// measure drains once and returns user records for each second of this process's CPU.
func measure(ctx context.Context, endpoint, app string, w workload, c contender) (float64, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	defer stop()
	var n atomic.Int64
	var used time.Duration
	began := cpu()
	err := c.drain(ctx, endpoint, app, w.stream, w.packed > 1, func([]byte) {
		if n.Add(1) == w.total() {
			used = cpu() - began
			stop()
		}
	})
	switch {
	case err != nil:
		return 0, err
	case n.Load() < w.total():
		return 0, fmt.Errorf("%d of %d records came in 5 minutes", n.Load(), w.total())
	}
	return float64(w.total()) / used.Seconds(), nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

func cloud(endpoint string) aws.Config {
	return aws.Config{Region: emulator.Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("bench", "secret", "")}
}

func fill(ctx context.Context, endpoint string, w workload) error {
	api := kinesis.NewFromConfig(cloud(endpoint))
	if _, err := api.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: &w.stream, ShardCount: aws.Int32(shards)}); err != nil {
		return err
	}
	if err := kinesis.NewStreamExistsWaiter(api).Wait(ctx, &kinesis.DescribeStreamInput{StreamName: &w.stream}, time.Minute); err != nil {
		return err
	}
	list, err := api.ListShards(ctx, &kinesis.ListShardsInput{StreamName: &w.stream})
	if err != nil {
		return err
	}
	for _, s := range list.Shards {
		key, err := keyOf(s)
		if err != nil {
			return err
		}
		data := make([]byte, 200)
		if w.packed > 1 {
			if data, err = kpl.Aggregate(slices.Repeat([]kpl.UserRecord{{PartitionKey: key, Data: data}}, w.packed)...); err != nil {
				return err
			}
		}
		entry := types.PutRecordsRequestEntry{Data: data, PartitionKey: &key}
		most := min(500, 4<<20/(len(data)+50))
		for left := w.perShard; left > 0; left -= most {
			n := min(left, most)
			out, err := api.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: &w.stream, Records: slices.Repeat([]types.PutRecordsRequestEntry{entry}, n)})
			if err != nil {
				return err
			}
			if *out.FailedRecordCount > 0 {
				return fmt.Errorf("%d of %d records were not taken", *out.FailedRecordCount, n)
			}
		}
	}
	return nil
}

// keyOf is a partition key of the shard.
func keyOf(s types.Shard) (string, error) {
	r, err := hashkey.ParseRange(*s.HashKeyRange.StartingHashKey, *s.HashKeyRange.EndingHashKey)
	for i := 0; err == nil; i++ {
		if key := fmt.Sprintf("customer-%06d", i); r.Contains(hashkey.Of(key)) {
			return key, nil
		}
	}
	return "", fmt.Errorf("shard %s: %w", strings.TrimSpace(*s.ShardId), err)
}

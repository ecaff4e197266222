// Command flights sends real flight records through a stream and checks what a fleet of two makes of them.
//
// It turns a JSON array of flights into lines with a running number n, puts them with "shardlease put" and reads them with
// two "shardlease consume" processes of one application, one of which it kills with SIGKILL half way. Then it audits: every
// n must have arrived, and the first deliveries of each key must be in the order in which they were put. It exits 1 if not.
//
// integration/flights.sh starts the servers that it needs.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

type options struct {
	bin, file, key, stream, kinesis, dynamodb string
	failover, within                          time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "", "the shardlease binary")
	flag.StringVar(&o.file, "file", "", "a JSON array of objects")
	flag.StringVar(&o.key, "key-field", "", "the field that becomes the partition key")
	flag.StringVar(&o.stream, "stream", "flights", "an existing stream")
	flag.StringVar(&o.kinesis, "kinesis-endpoint", "", "URL")
	flag.StringVar(&o.dynamodb, "dynamodb-endpoint", "", "URL")
	flag.DurationVar(&o.failover, "failover-time", 2*time.Second, "of the consumers")
	flag.DurationVar(&o.within, "within", 11*time.Minute, "give up after this long")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), o.within)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flights:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	lines, keys, err := numbered(o.file, o.key)
	if err != nil {
		return err
	}
	began := time.Now()
	put := exec.CommandContext(ctx, o.bin, "put", "--stream", o.stream, "--key-field", o.key, "--kinesis-endpoint", o.kinesis)
	put.Stdin, put.Stderr = bytes.NewReader(lines), os.Stderr
	if err := put.Run(); err != nil {
		return fmt.Errorf("put %s: %w", o.file, err)
	}
	fmt.Printf("put %d records in %.1f s\n", len(keys), time.Since(began).Seconds())

	a := newAudit(keys)
	began = time.Now()
	first, err := consume(ctx, o, "first", a)
	if err != nil {
		return err
	}
	defer first.kill()
	second, err := consume(ctx, o, "second", a)
	if err != nil {
		return err
	}
	defer second.kill()

	if err := a.wait(ctx, len(keys)/2); err != nil {
		return fmt.Errorf("half of the records: %w; %s", err, a.summary())
	}
	first.kill()
	fmt.Printf("killed the first consumer after %.1f s and %d records\n", time.Since(began).Seconds(), a.distinct())
	if err := a.wait(ctx, len(keys)); err != nil {
		return fmt.Errorf("all records: %w; %s", err, a.summary())
	}
	fmt.Printf("all arrived after %.1f s\n", time.Since(began).Seconds())
	if err := second.stop(); err != nil {
		return fmt.Errorf("stop the second consumer: %w", err)
	}
	fmt.Println(a.summary())
	return a.verdict()
}

// numbered returns the objects of a JSON array as lines, each with a running number n, and the key of each.
func numbered(file, key string) (lines []byte, keys []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // only read
	dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", filepath.Base(file), err)
	}
	var out bytes.Buffer
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, nil, fmt.Errorf("read object %d of %s: %w", len(keys), filepath.Base(file), err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, nil, fmt.Errorf("read object %d of %s: %w", len(keys), filepath.Base(file), err)
		}
		fmt.Fprintf(&out, "{\"n\":%d,%s\n", len(keys), bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("{")))
		keys = append(keys, strings.Trim(string(fields[key]), `"`))
	}
	return out.Bytes(), keys, nil
}

// consumer is one "shardlease consume" process.
type consumer struct {
	cmd  *exec.Cmd
	read sync.WaitGroup
	once sync.Once
	err  error
}

func consume(ctx context.Context, o options, name string, a *audit) (*consumer, error) {
	cmd := exec.CommandContext(ctx, o.bin, "consume", "--stream", o.stream, "--app", "flights-"+o.stream, "--worker-id", name,
		"--kinesis-endpoint", o.kinesis, "--dynamodb-endpoint", o.dynamodb, "--failover-time", o.failover.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &consumer{cmd: cmd}
	c.read.Go(func() { a.readAll(name, out) })
	return c, nil
}

func (c *consumer) wait() error {
	c.once.Do(func() { c.read.Wait(); c.err = c.cmd.Wait() })
	return c.err
}

func (c *consumer) kill() { _ = c.cmd.Process.Kill(); _ = c.wait() }

func (c *consumer) stop() error {
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return c.wait()
}

// audit sees every line of both consumers in the order in which they came.
type audit struct {
	mu         sync.Mutex
	keys       []string
	seen       []bool
	arrived    int
	duplicates int
	order      []string       // violations, as text
	last       map[string]int // newest first delivery by key
	broken     []string
	changed    chan struct{}
}

func newAudit(keys []string) *audit {
	return &audit{keys: keys, seen: make([]bool, len(keys)), last: map[string]int{}, changed: make(chan struct{}, 1)}
}

func (a *audit) readAll(name string, r io.Reader) {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // a line without its end is one that a kill cut off: it was not delivered
		}
		a.add(name, line)
	}
}

func (a *audit) add(name string, line []byte) {
	var rec struct{ Key, Data string }
	var flight struct{ N *int }
	err := json.Unmarshal(line, &rec)
	if err == nil {
		err = json.Unmarshal([]byte(rec.Data), &flight)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || flight.N == nil || *flight.N < 0 || *flight.N >= len(a.keys) || a.keys[*flight.N] != rec.Key {
		a.broken = append(a.broken, fmt.Sprintf("%s: %.200s (%v)", name, line, err))
		return
	}
	n := *flight.N
	if a.seen[n] {
		a.duplicates++
		return
	}
	a.seen[n] = true
	a.arrived++
	if last, ok := a.last[rec.Key]; ok && last > n {
		a.order = append(a.order, fmt.Sprintf("key %s: %d after %d (%s)", rec.Key, n, last, name))
	}
	a.last[rec.Key] = n
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *audit) distinct() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.arrived
}

func (a *audit) wait(ctx context.Context, n int) error {
	for a.distinct() < n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.changed:
		}
	}
	return nil
}

func (a *audit) summary() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("records %d arrived %d lost %d duplicates %d out of order %d unreadable %d keys %d",
		len(a.keys), a.arrived, len(a.keys)-a.arrived, a.duplicates, len(a.order), len(a.broken), len(a.last))
}

func (a *audit) verdict() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.order)+len(a.broken) == 0 && a.arrived == len(a.keys) {
		return nil
	}
	all := append(append([]string{}, a.order...), a.broken...)
	return fmt.Errorf("%d faults, the first: %s", len(all), strings.Join(all[:min(5, len(all))], "; "))
}

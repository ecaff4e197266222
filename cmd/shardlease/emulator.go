package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/shardlease/shardlease/emulator"
)

type emulatorCmd struct {
	Listen string          `default:"127.0.0.1:4567" placeholder:"HOST:PORT" help:"Address to serve on; port 0 takes a free one. Default: ${default}."`
	Stream []streamAndSize `sep:"none" placeholder:"NAME:SHARDS" help:"Stream to create at the start; may be repeated."`
	Limits bool            `help:"Throttle as the services do."`
}

// Help is the text below the flags.
func (emulatorCmd) Help() string {
	return "It speaks the protocols of Kinesis, DynamoDB and DynamoDB Streams on one address. A table created with a stream specification has a stream, whose ARN is the table's LatestStreamArn. " +
		"Everything is lost when it ends."
}

// streamAndSize is a stream to create.
type streamAndSize struct {
	name   string
	shards int
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *streamAndSize) UnmarshalText(text []byte) error {
	name, count, ok := strings.Cut(string(text), ":")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || name == "" || n < 1 {
		return fmt.Errorf("%q is not a stream, want NAME:SHARDS as in orders:4", text)
	}
	s.name, s.shards = name, n
	return nil
}

// Validate checks what kong cannot.
func (c emulatorCmd) Validate() error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen is %q, want HOST:PORT as in 127.0.0.1:4567", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("--listen names port %q, want a number from 0 (any free port) to 65535", port)
	}
	return nil
}

// Run serves until ctx ends.
func (c emulatorCmd) Run(ctx context.Context, s streams) error {
	var opts []emulator.Option
	if c.Limits {
		opts = append(opts, emulator.WithLimits())
	}
	server := emulator.New(opts...)
	var faults []error
	for _, want := range c.Stream {
		if err := server.CreateStream(want.name, want.shards); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return usageError{err}
	}
	url, stop, err := server.Listen(c.Listen)
	if err != nil {
		return err
	}
	defer stop()
	_, err = fmt.Fprintf(s.out, `# Kinesis, DynamoDB and DynamoDB Streams, in memory, on %[1]s until this process ends. For the AWS SDK:
export AWS_ENDPOINT_URL=%[1]s
export AWS_REGION=%[2]s
export AWS_ACCESS_KEY_ID=local
export AWS_SECRET_ACCESS_KEY=local
`, url, emulator.Region)
	if err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	<-ctx.Done()
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/cloud"
	"github.com/shardlease/shardlease/cmd/shardlease/internal/put"
)

// mostLines is more than fit into a record, unless they are very short.
const mostLines = 100_000

type putCmd struct {
	Stream    oneStream `required:"" placeholder:"NAME" help:"Stream to put into, a name or an ARN."`
	KeyField  *string   `placeholder:"FIELD" help:"Lines are JSON objects, and this field (a string, or a number as it is written) is the partition key; the records of a key are stored in the order of their lines. Without it the key is a hash of the line, and lines may change places."`
	Aggregate *int      `placeholder:"LINES" help:"Pack up to so many lines of one key into one record, as the Kinesis Producer Library does; without --key-field, lines of any key, under the key of the first. A line waits for others for a tenth of a second at most."`
	cloud.KinesisFlags
	File string `arg:"" optional:"" help:"File to read, one record a line; - or nothing: standard input."`
}

// Help is the text below the flags.
func (putCmd) Help() string {
	return "What the service refuses is sent again until it is taken; a call whose answer got lost is sent again too, so that a record may be stored twice. " +
		"Blank lines are left out. A line may have 1 MiB, with its key. At the first line that cannot be put it ends with exit code 1, after storing everything before it."
}

// Validate checks what kong cannot.
func (c putCmd) Validate() error {
	return errors.Join(c.Stream.nameOrARN(), c.aggregate(), c.KinesisFlags.Validate())
}

func (c putCmd) aggregate() error {
	if n := c.Aggregate; n != nil && (*n < 1 || *n > mostLines) {
		return fmt.Errorf("--aggregate is %d, want 1 to %d lines; leave the flag out to put each line as a record", *n, mostLines)
	}
	return nil
}

// Run reads the input to its end.
func (c putCmd) Run(ctx context.Context, s streams) error {
	key := ""
	if c.KeyField != nil {
		if key = *c.KeyField; key == "" {
			return usageError{errors.New("--key-field is empty, want the name of a field; leave the flag out to key lines by their hash")}
		}
	}
	aggregate := 0
	if c.Aggregate != nil {
		aggregate = *c.Aggregate
	}
	in, source, err := c.open(s)
	if err != nil {
		return err
	}
	api, err := c.Kinesis(ctx)
	if err != nil {
		return err
	}
	if err := inRegion(api.Options().Region, string(c.Stream)); err != nil {
		return usageError{err}
	}
	err = put.Run(ctx, api, in, put.Options{Stream: string(c.Stream), KeyField: key, Aggregate: aggregate, Source: source, Where: c.String(), Log: s.err})
	if closing := in.Close(); err == nil && closing != nil {
		return fmt.Errorf("close %s: %w", source, closing)
	}
	return err
}

func (c putCmd) open(s streams) (in io.ReadCloser, source string, err error) {
	if c.File == "" || c.File == "-" {
		return io.NopCloser(s.in), "standard input", nil
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, "", err // names the file and the operation
	}
	return f, c.File, nil
}

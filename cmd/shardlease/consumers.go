package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/cloud"
	"github.com/shardlease/shardlease/cmd/shardlease/internal/consumers"
	"github.com/shardlease/shardlease/config"
)

type consumersCmd struct {
	List       consumersListCmd       `cmd:"" default:"withargs" help:"Show each consumer, whether an application of its name works, and how to remove it. (default)"`
	Deregister consumersDeregisterCmd `cmd:"" help:"Remove a consumer. An application that reads with it loses its subscriptions, and registers it anew if it may."`
}

type consumersListCmd struct {
	Stream oneStream `required:"" placeholder:"NAME" help:"Stream whose consumers to show, a name or an ARN."`
	cloud.Flags
}

// Help is the text below the flags.
func (consumersListCmd) Help() string {
	return "A consumer is paid for by the hour until it is removed, whether it is used or not. By default it is named like its application, and that like its lease table: " +
		"where there is no such table, or nobody owns a lease in it, the consumer is likely to be left over. An application that works may still read by polling and have left its consumer behind: its configuration tells."
}

// Validate checks what kong cannot.
func (c consumersListCmd) Validate() error {
	return errors.Join(c.Stream.nameOrARN(), c.Flags.Validate())
}

// nameOrARN reports what is wrong with a stream that may be given in either way.
func (s oneStream) nameOrARN() error {
	if !strings.HasPrefix(string(s), "arn:") {
		return required("--stream", string(s), "a stream's name")
	}
	if err := ofKinesis(string(s)); err != nil {
		return err
	}
	if err := (config.StreamConfig{StreamARN: string(s)}).Validate(); err != nil {
		return fmt.Errorf("--stream: %w", err)
	}
	return nil
}

// Run prints the list.
func (c consumersListCmd) Run(ctx context.Context, s streams) error {
	k, d, _, err := c.Clients(ctx)
	if err != nil {
		return err
	}
	return consumers.List(ctx, s.out, k, d, string(c.Stream), c.given())
}

// given is what has to be repeated in a command that removes a consumer.
func (c consumersListCmd) given() string {
	var b strings.Builder
	for _, f := range [][2]string{{"--endpoint", c.Endpoint}, {"--kinesis-endpoint", c.KinesisEndpoint}, {"--region", c.Region}} {
		if f[1] != "" {
			fmt.Fprintf(&b, " %s %s", f[0], f[1])
		}
	}
	return b.String()
}

type consumersDeregisterCmd struct {
	Stream oneStream `required:"" placeholder:"NAME" help:"Stream with which the consumer is registered, a name or an ARN."`
	cloud.KinesisFlags
	Consumer string `arg:"" help:"Name of the consumer."`
}

// Validate checks what kong cannot.
func (c consumersDeregisterCmd) Validate() error {
	return errors.Join(c.Stream.nameOrARN(), required("the argument", c.Consumer, "a consumer's name"), c.KinesisFlags.Validate())
}

// Run removes the consumer.
func (c consumersDeregisterCmd) Run(ctx context.Context, s streams) error {
	k, err := c.Kinesis(ctx)
	if err != nil {
		return err
	}
	return consumers.Deregister(ctx, s.out, k, string(c.Stream), c.Consumer)
}

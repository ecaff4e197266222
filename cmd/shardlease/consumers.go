package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/cloud"
	"github.com/shardlease/shardlease/cmd/shardlease/internal/consumers"
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
		"where there is no such table, or nobody owns a lease in it, the consumer is likely to be left over. Workers that were killed still stand as owners in their table, and those that run may read by polling and have left their consumer behind: no table tells, so the list has the command for these cases."
}

// Validate checks what kong cannot.
func (c consumersListCmd) Validate() error {
	return errors.Join(c.Stream.nameOrARN(), c.Flags.Validate())
}

// Run prints the list.
func (c consumersListCmd) Run(ctx context.Context, s streams) error {
	k, d, both, err := c.Clients(ctx)
	if err != nil {
		return err
	}
	if err := inRegion(both.Region, string(c.Stream)); err != nil {
		return usageError{err}
	}
	return consumers.List(ctx, s.out, k, d, string(c.Stream), c.given())
}

// given is what has to be repeated in a command that removes a consumer.
func (c consumersListCmd) given() string {
	var b strings.Builder
	for _, f := range []struct {
		flag  string
		value cloud.Text
	}{{"--endpoint", c.Endpoint}, {"--kinesis-endpoint", c.KinesisEndpoint}, {"--region", c.Region}} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s %s", f.flag, f.value)
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
	if err := inRegion(k.Options().Region, string(c.Stream)); err != nil {
		return usageError{err}
	}
	return consumers.Deregister(ctx, s.out, k, string(c.Stream), c.Consumer)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/cloud"
	"github.com/shardlease/shardlease/cmd/shardlease/internal/consume"
	"github.com/shardlease/shardlease/config"
)

type consumeCmd struct {
	Stream        []string       `required:"" sep:"none" placeholder:"NAME" help:"Stream to read, a name or an ARN. Given several times, all of them are read, under leases of another form: use another --app than for one stream."`
	App           string         `required:"" placeholder:"NAME" help:"Application; also the name of the lease table. Processes of one application share the shards."`
	Start         startPosition  `default:"trim-horizon" placeholder:"POSITION" help:"Where to start in shards without a checkpoint: trim-horizon, latest, or a time such as 2026-01-02T15:04:05Z. Default: ${default}."`
	Output        consume.Format `default:"json" enum:"json,data" placeholder:"FORMAT" help:"json: one object a line; data: the data alone. Default: ${default}."`
	UntilCaughtUp bool           `help:"End when everything is read, by this process or its peers: each lease is finished, or nothing is in its shard behind its checkpoint."`
	FailoverTime  time.Duration  `default:"10s" placeholder:"DURATION" help:"How long a lease is respected that is not renewed. Default: ${default}."`
	WorkerID      cloud.Text     `placeholder:"ID" help:"Name of this process in the lease table; by default a new one. With the name it had before, a process regains its leases at once."`
	FanOut        bool           `help:"Read by enhanced fan-out, as a consumer that is registered under the application's name and removed, from all streams, when the last process of it stops. It costs money."`
	MaxLeases     int            `placeholder:"N" help:"Hold at most so many leases. Default: no limit."`
	cloud.Flags
}

// Help is the text below the flags.
func (consumeCmd) Help() string {
	return "A JSON line has the members stream (if there are several), shard, sequence, sub (index in an aggregate, if not 0), key, arrival, and data, or data_base64 if the data is not UTF-8; and error, with the whole record as data, where a KPL aggregate cannot be taken apart. " +
		"A record is checkpointed after its line was written, so that each one is printed at least once. " +
		"Logs go to standard error. SIGTERM or an interrupt stops gracefully, with exit code 1 if that was to come by --until-caught-up only; a second one, a tenth of a second later or more, stops at once."
}

// Validate checks what kong cannot.
func (c consumeCmd) Validate() error {
	faults := []error{required("--stream", strings.Join(c.Stream, ""), "a stream's name"), required("--app", c.App, "an application's name")}
	if c.MaxLeases < 0 {
		faults = append(faults, fmt.Errorf("--max-leases is %d, want at least 1, or 0 for no limit", c.MaxLeases))
	}
	if c.FailoverTime == 0 {
		faults = append(faults, errors.New("--failover-time is 0s, want 500ms to 10m0s"))
	}
	for _, s := range c.Stream {
		faults = append(faults, ofKinesis(s))
	}
	return errors.Join(append(faults, inOneRegion(c.Stream), c.Flags.Validate())...)
}

// startPosition is --start.
type startPosition struct{ at config.InitialPosition }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *startPosition) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "trim-horizon":
		p.at = config.TrimHorizon()
	case "latest":
		p.at = config.Latest()
	default:
		t, err := time.Parse(time.RFC3339, string(text))
		if err != nil {
			return fmt.Errorf("%q is no position, want trim-horizon, latest, or a time such as 2026-01-02T15:04:05Z (RFC 3339)", text)
		}
		p.at = config.AtTimestamp(t)
	}
	return nil
}

// streams says what to read, and from where.
func (c consumeCmd) streams(cfg *config.Config) {
	var all []config.StreamConfig
	for _, s := range c.Stream {
		one := streamConfig(s)
		one.InitialPosition = c.Start.at
		all = append(all, one)
	}
	if len(all) > 1 {
		cfg.Streams = all
		return
	}
	cfg.StreamName, cfg.StreamARN, cfg.InitialPosition = all[0].StreamName, all[0].StreamARN, all[0].InitialPosition
}

// Run prints records until it is stopped.
func (c consumeCmd) Run(ctx context.Context, s streams) error {
	cfg := config.Default(c.App, "")
	c.streams(&cfg)
	cfg.LeaseManagement.FailoverTime = c.FailoverTime
	cfg.LeaseManagement.MaxLeasesForWorker = c.MaxLeases
	if c.FanOut {
		cfg.Retrieval.Mode = config.FanOut
		cfg.Retrieval.FanOut.Deregister = true
	}
	if c.WorkerID != "" {
		cfg.WorkerID = string(c.WorkerID)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(s.err, nil))
	if err := inFlags(cfg.Validate()); err != nil {
		return usageError{err}
	}
	k, d, both, err := c.Clients(ctx)
	if err != nil {
		return err
	}
	if err := inRegion(both.Region, c.Stream...); err != nil {
		return usageError{err}
	}
	cfg.Logger.InfoContext(ctx, "consuming", "stream", strings.Join(c.Stream, ", "), "app", c.App, "from", c.String())
	return consume.Run(ctx, s.out, consume.Options{
		Config: cfg, Cloud: both, Kinesis: k, DynamoDB: d, Format: c.Output, UntilCaughtUp: c.UntilCaughtUp,
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// cli is the command line.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	Demo       demoCmd       `cmd:"" help:"Watch a fleet of processes share a stream through a split, a merge, a kill and a stop, and audit what arrived."`
	Consume    consumeCmd    `cmd:"" help:"Print a stream's records, sharing the shards with every other process of the same application."`
	Put        putCmd        `cmd:"" help:"Put lines into a stream."`
	Consumers  consumersCmd  `cmd:"" help:"Show the consumers that are registered with a stream for enhanced fan-out, or remove one."`
	Emulator   emulatorCmd   `cmd:"" help:"Serve a small Kinesis and DynamoDB, in memory, for other programs; DynamoDB Streams of its tables, too."`
	DemoWorker demoWorkerCmd `cmd:"" hidden:""` // one process of the demo's fleet
}

// dispatch parses args and runs the command they name.
func dispatch(ctx context.Context, args []string, s streams) error {
	exited := false // by --help or --version: parsing goes on, and what it says then is not of interest
	parser, err := kong.New(&cli{},
		kong.Name("shardlease"),
		kong.Description("Kinesis consumers that share their shards through leases in a DynamoDB table."),
		kong.Vars{"version": version()},
		kong.Writers(s.out, s.err),
		kong.Exit(func(int) { exited = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return fmt.Errorf("build the command line: %w", err)
	}
	parsed, err := parser.Parse(spelled(args))
	if exited {
		return nil
	}
	if err != nil {
		// That kong takes a value for a flag with one dash is of no interest to the user.
		return usageError{errors.New(strings.ReplaceAll(err.Error(), " (short flag)", "") + allowed(err))}
	}
	return parsed.Run()
}

// negative is a number that kong takes for a flag with one dash.
var negative = regexp.MustCompile(`^-[0-9]`)

// spelled writes a command line as kong wants it: help COMMAND as COMMAND --help, and --flag -1, which is for the flag's own check to refuse, as
// --flag=-1.
func spelled(args []string) (all []string) {
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	for i, a := range args {
		if a == "--" {
			return append(all, args[i:]...)
		}
		if n := len(all); n > 0 && negative.MatchString(a) && strings.HasPrefix(all[n-1], "--") && !strings.Contains(all[n-1], "=") {
			all[n-1] += "=" + a
			continue
		}
		all = append(all, a)
	}
	return all
}

// required reports a flag that is missing or empty. It comes before kong's own check, which would not see the latter.
func required(flag, value, want string) error {
	if value == "" {
		return fmt.Errorf("%s is missing, want %s", flag, want)
	}
	return nil
}

// allowed completes an error of parsing with what could have been written, unless the error says so itself.
func allowed(err error) string {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return ""
	}
	node := parse.Context.Selected()
	if node == nil {
		node = parse.Context.Model.Node
	}
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "unknown flag"):
		return fmt.Sprintf("; flags of %s: %s", node.FullPath(), strings.Join(flagsOf(node), ", "))
	case strings.HasPrefix(text, "unexpected argument"):
		var names []string
		for _, c := range node.Children {
			if !c.Hidden {
				names = append(names, c.Name)
			}
		}
		if len(names) == 0 {
			return "; usage: " + node.Summary()
		}
		return "; commands: " + strings.Join(names, ", ")
	}
	return ""
}

func flagsOf(node *kong.Node) []string {
	var names []string
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			names = append(names, "--"+f.Name)
		}
	}
	return names
}

// version is what the build knows of itself: the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "shardlease (built without module information)"
	}
	text := "shardlease " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(text, s.Value[:min(12, len(s.Value))]) {
			text += " " + s.Value
		}
	}
	return text + " " + info.GoVersion
}

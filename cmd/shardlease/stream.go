package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/shardlease/shardlease/config"
)

// oneStream is a flag --stream that may be given once: a second one, by mistake or by analogy with consume, would take the
// place of the first without a word.
type oneStream string

// UnmarshalText implements encoding.TextUnmarshaler; kong calls it for each time that the flag is given.
func (s *oneStream) UnmarshalText(text []byte) error {
	if *s != "" {
		return fmt.Errorf("given more than once, %q after %q, want one stream", text, string(*s))
	}
	*s = oneStream(text)
	return nil
}

// nameOrARN reports what is wrong with a stream that may be given in either way.
func (s oneStream) nameOrARN() error {
	if s == "" {
		return required("--stream", "", "a stream's name")
	}
	if err := ofKinesis(string(s)); err != nil {
		return err
	}
	return inFlags(streamConfig(string(s)).Validate())
}

// streamConfig is a stream that is given by its name or its ARN.
func streamConfig(s string) config.StreamConfig {
	if strings.HasPrefix(s, "arn:") {
		return config.StreamConfig{StreamARN: s}
	}
	return config.StreamConfig{StreamName: s}
}

// flags are the flags of consume by the fields of the configuration that they fill.
var flags = map[string]string{
	"ApplicationName": "--app", "StreamName": "--stream", "StreamARN": "--stream", "WorkerID": "--worker-id",
	"InitialPosition": "--start", "LeaseManagement.FailoverTime": "--failover-time",
}

// field is how a fault of the configuration begins.
var field = regexp.MustCompile(`(?m)^(Streams\[\d+\]\.?)?([A-Za-z.]*)`)

// inFlags says in the words of the command line what is wrong with a configuration.
func inFlags(err error) error {
	if err == nil {
		return nil
	}
	text := field.ReplaceAllStringFunc(err.Error(), func(name string) string {
		parts := field.FindStringSubmatch(name)
		if flag, ok := flags[parts[2]]; ok {
			return flag
		} else if parts[1] != "" && parts[2] == "" {
			return "--stream"
		}
		return name
	})
	return errors.New(other.ReplaceAllString(text, "another one"))
}

// other is one of several streams within a fault of another one.
var other = regexp.MustCompile(`Streams\[\d+\]`)

// inRegion reports streams of another region than the one that requests go to.
func inRegion(region string, streams ...string) error {
	var faults []error
	for _, s := range streams {
		if parts := strings.Split(s, ":"); len(parts) == 6 && parts[0] == "arn" && parts[2] == "kinesis" && parts[3] != region {
			faults = append(faults, fmt.Errorf("--stream is %q, want one in region %s, which --region, the environment or the profile names; or --region %s", s, region, parts[3]))
		}
	}
	return errors.Join(faults...)
}

// inOneRegion reports streams of another region than those before: a process asks one.
func inOneRegion(streams []string) error {
	first := ""
	var faults []error
	for _, s := range streams {
		parts := strings.Split(s, ":")
		switch {
		case len(parts) != 6 || parts[2] != "kinesis":
		case first == "":
			first = parts[3]
		case parts[3] != first:
			faults = append(faults, fmt.Errorf("--stream is %q, want one in region %s, as the one before: a process reads one region", s, first))
		}
	}
	return errors.Join(faults...)
}

// ofKinesis reports a stream of DynamoDB, which no command reads.
func ofKinesis(stream string) error {
	if parts := strings.Split(stream, ":"); len(parts) > 2 && parts[0] == "arn" && parts[2] == "dynamodb" {
		return fmt.Errorf("--stream is %q, want a stream of Kinesis: this command reads no other; a program reads the stream of a DynamoDB table with the library, see docs/dynamodb-streams.md", stream)
	}
	return nil
}

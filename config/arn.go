package config

import (
	"errors"
	"fmt"
	"strings"
)

// streamARN is what arn:PARTITION:kinesis:REGION:ACCOUNT:stream/NAME says.
type streamARN struct{ partition, region, account, name string }

func (a streamARN) String() string {
	return "arn:" + a.partition + ":kinesis:" + a.region + ":" + a.account + ":stream/" + a.name
}

// parseARN reads the ARN of a stream. The error says what is allowed; the caller names the value.
func parseARN(s string) (streamARN, error) {
	parts := strings.Split(s, ":")
	if len(parts) > 2 && parts[2] == "dynamodb" {
		return streamARN{}, errors.New("arn:aws:kinesis:REGION:ACCOUNT:stream/NAME, or, for the stream of a DynamoDB table, the option " +
			"shardlease.WithSource with a source of package retrieval/dynamostreams")
	}
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") || parts[2] != "kinesis" || parts[3] == "" || !isName(parts[3]) {
		return streamARN{}, errors.New("arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
	}
	if p := partitionOf(parts[3], parts[1]); p != parts[1] {
		return streamARN{}, misplacedError{p, "kinesis", parts[3]}
	}
	if !isAccount(parts[4]) {
		return streamARN{}, errors.New("an account of 12 digits in arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
	}
	kind, name, _ := strings.Cut(parts[5], "/")
	if kind != "stream" || len(name) < 1 || len(name) > 128 || !isName(name) {
		return streamARN{}, errors.New("stream/NAME at the end, NAME of 1 to 128 characters of a-z, A-Z, 0-9, '_', '.', '-'")
	}
	return streamARN{partition: parts[1], region: parts[3], account: parts[4], name: name}, nil
}

// partitions are those beside aws, by how the names of their regions begin.
var partitions = [...]struct{ region, partition string }{
	{"cn-", "aws-cn"},
	{"us-gov-", "aws-us-gov"},
	{"us-iso-", "aws-iso"},
	{"us-isob-", "aws-iso-b"},
	{"eu-isoe-", "aws-iso-e"},
	{"us-isof-", "aws-iso-f"},
	{"eusc-", "aws-eusc"},
}

// partitionOf is the partition that has a region: said, if it is one that this version does not know.
func partitionOf(region, said string) string {
	known := said == "aws" || !strings.HasPrefix(said, "aws-")
	for _, p := range partitions {
		if strings.HasPrefix(region, p.region) {
			return p.partition
		}
		known = known || said == p.partition
	}
	if known {
		return "aws"
	}
	return said
}

// misplacedError says which partition has the region of an ARN that names another one.
type misplacedError struct{ partition, service, region string }

func (e misplacedError) Error() string {
	return fmt.Sprintf("arn:%s:%s:%s:…, as region %[3]s is in that partition", e.partition, e.service, e.region)
}

func isAccount(s string) bool { return len(s) == 12 && isDigits(s) }

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

package leasetest

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Server is a DynamoDB server under test.
type Server struct {
	Name     string
	Config   aws.Config // how to reach it
	Features Features
	// Failover is that of the workers of Run. An attempt is given up after a sixth of it: one that is only slow must not be. 0: 10 s.
	Failover time.Duration
}

// Features is what servers differ in. Everything else a server must have.
type Features struct {
	OldItemOnFailure    bool // a failed condition returns the item when asked; else it has to be read
	ComparesPaths       bool // a condition may compare two attributes, one of them inside a map
	ConsumedCapacity    bool // a Scan says what it cost; where it says nothing that is estimated, where it is wrong it is believed
	ConsistentCapacity  bool // and says so that a consistent one costs twice as much
	PointInTimeRecovery bool
	DeletionProtection  bool
	Tags                bool // set by CreateTable
	Transactions        bool
}

// Kinds are the servers whose features are known, by the name that SHARDLEASE_DYNAMODB_KIND takes.
var Kinds = map[string]Features{
	"emulator": everything(),
	"aws":      everything(),
	"dynalite": {ComparesPaths: true, ConsumedCapacity: true},
	"dynoxide": {
		OldItemOnFailure: true, ComparesPaths: true, ConsumedCapacity: true, ConsistentCapacity: true, DeletionProtection: true, Tags: true, Transactions: true,
	},
	"ministack":  without(func(f *Features) { f.ConsumedCapacity, f.ConsistentCapacity = false, false }),
	"localstack": everything(),
	"moto":       without(func(f *Features) { f.ConsumedCapacity, f.ConsistentCapacity = false, false }), // and its writes are not atomic, which nothing makes up for
}

func everything() Features {
	return Features{
		OldItemOnFailure: true, ComparesPaths: true, ConsumedCapacity: true, ConsistentCapacity: true, PointInTimeRecovery: true,
		DeletionProtection: true, Tags: true, Transactions: true,
	}
}

func without(change func(*Features)) Features {
	f := everything()
	change(&f)
	return f
}

// declared compares what was found with what the server's features say, and tells it by an attribute of the test, "has" or
// "lacks", of which docs/compatibility.md is made.
func declared(t *testing.T, feature string, declared, works bool) {
	t.Helper()
	if works {
		t.Attr("has", feature)
	} else {
		t.Attr("lacks", feature)
	}
	switch {
	case declared && !works:
		t.Errorf("%s is declared, but does not work", feature)
	case !declared && works:
		t.Errorf("%s is not declared, but works: declare it", feature)
	case !declared:
		t.Logf("declared missing: %s", feature)
	}
}

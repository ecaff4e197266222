package leasetest_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/awshttp"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/internal/leasetest"
)

func TestMain(m *testing.M) {
	if err := fleettest.AtOnce(8); err != nil { // they wait until requests are given up
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func TestTable_onTheEmulator(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, leasetest.Server{Name: "emulator", Config: emulator.New().AWSConfig(), Features: leasetest.Kinds["emulator"]})
}

// Some servers do not return the item on which a condition failed. The emulator is made one of them, so that the way around
// is tested without them.
func TestTable_onAServerThatReturnsNoOldItem(t *testing.T) {
	t.Parallel()
	cfg := leasetest.Forgetful(emulator.New().AWSConfig())
	features := leasetest.Kinds["emulator"]
	features.OldItemOnFailure = false
	leasetest.Run(t, leasetest.Server{Name: "emulator without ALL_OLD", Config: cfg, Features: features})
}

// Each case in a bubble of its own: the failover times that cases wait for cost nothing.
func TestAmbiguousWrites_leaveTableAndBeliefsAgreed(t *testing.T) {
	t.Parallel()
	leasetest.AmbiguousWrites(t, 10*time.Second, true, func() leasetest.Server {
		return leasetest.Server{Name: "emulator", Config: emulator.New().AWSConfig(), Features: leasetest.Kinds["emulator"]}
	})
}

// TestTable_onAnotherServer runs the suite against SHARDLEASE_DYNAMODB_ENDPOINT, a server of the kind that
// SHARDLEASE_DYNAMODB_KIND names. Without the endpoint there is no other server, and nothing to be tested.
func TestTable_onAnotherServer(t *testing.T) {
	t.Parallel()
	endpoint, kind := os.Getenv("SHARDLEASE_DYNAMODB_ENDPOINT"), os.Getenv("SHARDLEASE_DYNAMODB_KIND")
	if endpoint == "" {
		t.Log("SHARDLEASE_DYNAMODB_ENDPOINT names no server; the emulator is the only one tested")
		return
	}
	features, ok := leasetest.Kinds[kind]
	if !ok {
		t.Fatalf("SHARDLEASE_DYNAMODB_KIND is %q, want one of %v", kind, slices.Sorted(maps.Keys(leasetest.Kinds)))
	}
	// A busy machine's server may take seconds for an answer.
	server := leasetest.Server{Name: kind, Features: features, Failover: time.Minute, Config: awshttp.Prepare(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("suite", "secret", ""),
	})}
	leasetest.Run(t, server)
	t.Run("ambiguous writes", func(t *testing.T) {
		t.Parallel()
		leasetest.AmbiguousWrites(t, 15*time.Second, false, func() leasetest.Server { return server })
	})
}

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// server is a kind of server, by the name that both suites know it by.
type server struct {
	dynamodb, kinesis bool
	partner           string        // the server of the other service in its fleet; "": it is both, or has no fleet
	parallel          int           // cases at once; 0: 16
	limit             time.Duration // of each suite; 0: 6 minutes
	crawls            bool          // no ambiguous writes, whose cases count on answers within a second
	parts             string        // of the leases suite only these, for a server of some twenty writes a second; "": all
	slow              bool          // a fleet with a long failover time and few records
	unfit             string        // the case that fails: such a server is good for nothing that holds leases
}

// servers are those that we test.
var servers = map[string]server{
	"emulator":      {dynamodb: true, kinesis: true},
	"dynalite":      {dynamodb: true, partner: "kinesis-local"},
	"dynoxide":      {dynamodb: true, partner: "kinesalite"},
	"ministack":     {dynamodb: true, kinesis: true, partner: "kinesalite", crawls: true}, // its streams cannot be resharded
	"kinesis-local": {kinesis: true, partner: "dynalite", parallel: 3},                    // one thread
	"kinesalite":    {kinesis: true, partner: "dynoxide"},
	"localstack":    {dynamodb: true, kinesis: true, parallel: 4, limit: 15 * time.Minute, crawls: true, slow: true, parts: "/^(tenure|tables|reads|mode|features|of_many_at_once_one_succeeds)$"},
	"moto":          {dynamodb: true, crawls: true, parts: "/^(features|of_many_at_once_one_succeeds)$", unfit: "of many at once one succeeds"},
}

// columns is the order of the tables.
var columns = []string{"emulator", "dynalite", "dynoxide", "ministack", "kinesis-local", "kinesalite", "localstack", "moto"}

// running is a server to test.
type running struct {
	server
	name, version, url string // the emulator has no URL: the suites start it
}

// parse reads NAME@VERSION=URL, or "emulator".
func parse(arg string) (running, error) {
	name, url, _ := strings.Cut(arg, "=")
	name, version, _ := strings.Cut(name, "@")
	s, known := servers[name]
	if !known {
		return running{}, fmt.Errorf("server %q, want one of %v", name, slices.Sorted(maps.Keys(servers)))
	}
	if name != "emulator" && (version == "" || url == "") {
		return running{}, fmt.Errorf("%q, want %s@VERSION=URL", arg, name)
	}
	return running{server: s, name: name, version: version, url: url}, nil
}

// job is one suite on one server.
type job struct {
	suite string // a key of suites
	on    []running
	with  string // the server of the other service in a fleet
	env   []string
	args  []string
	limit time.Duration
}

// The suites, by their name in records and tables, with the package that holds each.
const (
	leasesSuite = "leases"
	streamSuite = "stream"
	fleetSuite  = "fleet"
)

var suites = map[string]string{leasesSuite: "internal/leasetest", streamSuite: "internal/sourcetest", fleetSuite: "integration"}

// jobsFor lists what to run: the longest first.
func jobsFor(all []running) []job {
	byName := map[string]running{}
	for _, r := range all {
		byName[r.name] = r
	}
	var jobs []job
	add := func(suite string, r running, run string, env ...string) {
		parallel, limit := r.parallel, r.limit
		if parallel == 0 {
			parallel = 16
		}
		if limit == 0 {
			limit = 6 * time.Minute
		}
		j := job{suite: suite, on: []running{r}, env: env, limit: limit, args: []string{"-test.run=" + run, fmt.Sprintf("-test.parallel=%d", parallel), "-test.timeout=" + limit.String()}}
		if r.crawls {
			j.args = append(j.args, "-test.skip=^TestTable_onAnotherServer$/^ambiguous_writes$")
		}
		jobs = append(jobs, j)
	}
	for _, r := range all {
		if r.name == "emulator" {
			add(leasesSuite, r, "^TestTable_onTheEmulator$")
			add(streamSuite, r, "^TestEmulator_behavesAsKinesisDoes$")
			add(fleetSuite, r, "^TestFleet_losesNothing", kinesisEndpoint+"=", dynamodbEndpoint+"=")
			continue
		}
		if r.kinesis {
			add(streamSuite, r, "^TestForeignServer_", kinesisEndpoint+"="+r.url, "SHARDLEASE_KINESIS_KIND="+r.name)
		}
		if r.dynamodb {
			add(leasesSuite, r, "^TestTable_onAnotherServer$"+r.parts, dynamodbEndpoint+"="+r.url, "SHARDLEASE_DYNAMODB_KIND="+r.name)
		}
	}
	fleets := map[string]bool{}
	for _, r := range all {
		if r.name == "emulator" || r.unfit != "" {
			continue
		}
		other, there := r, true
		if r.partner != "" {
			other, there = byName[r.partner]
		}
		if !there || fleets[other.name+" "+r.name] {
			continue
		}
		fleets[r.name+" "+other.name] = true
		streams, table := r, other
		if r.dynamodb {
			streams, table = other, r
		}
		add(fleetSuite, r, "^TestFleet_losesNothing", kinesisEndpoint+"="+streams.url, dynamodbEndpoint+"="+table.url)
		j := &jobs[len(jobs)-1]
		if r.slow {
			j.args = append(j.args, "-fleet-failover=10s", "-fleet-pause=1s")
		}
		if other.name != r.name {
			j.with = other.name
			if other.partner == r.name {
				j.on = append(j.on, other) // it is the fleet of both
			}
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return weight(b) - weight(a) })
	return jobs
}

// weight puts those first that take long.
func weight(j job) int {
	return map[string]int{streamSuite: 1, leasesSuite: 2, fleetSuite: 3}[j.suite] + map[bool]int{true: 10}[j.on[0].slow]
}

const (
	kinesisEndpoint  = "SHARDLEASE_KINESIS_ENDPOINT"
	dynamodbEndpoint = "SHARDLEASE_DYNAMODB_ENDPOINT"
)

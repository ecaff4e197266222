# Habits. `make` prints them.
SHELL := bash
LINT_VERSION := v2.15.0
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/shardlease-tools
SEED ?= 0

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: check
check: lint test race ## what to run before a commit

.PHONY: test
test: ## go test ./...
	go test ./...

.PHONY: race
race: ## the same with the race detector, shuffled, long ones shortened
	go test -race -short -shuffle=on ./...

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(LINT_VERSION) ## golangci-lint, formatting, go.mod
	$< run ./...
	go mod tidy -diff

$(TOOLS)/golangci-lint-$(LINT_VERSION):
	mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv $(TOOLS)/golangci-lint $@

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint-$(LINT_VERSION) ## gofumpt and import order
	$< fmt ./...

.PHONY: build
build: build-here build-elsewhere ## build and vet everything, also for other systems (integration/ for Linux and macOS only)

.PHONY: build-here
build-here:
	go build ./... && go vet ./...

.PHONY: build-elsewhere
build-elsewhere:
	GOOS=darwin GOARCH=arm64 go build ./...
	for target in windows/amd64 linux/arm64 linux/386; do GOOS=$${target%/*} GOARCH=$${target#*/} go build $$(go list ./... | grep -v /integration/) || exit 1; done

.PHONY: bench
bench: ## a worker beside a bare GetRecords loop, five rounds: records, CPU, allocations, ratios (ROUNDS=n; docs/performance.md)
	go run ./internal/bench -rounds $(or $(ROUNDS),5)

.PHONY: bench-others
bench-others: ## a worker beside two other Go libraries: records for each second of CPU, of plain records and of aggregates (ROUNDS=n)
	cd internal/bench/others && go build -ldflags '-X google.golang.org/protobuf/reflect/protoregistry.conflictPolicy=ignore' -o ../../../bin/others . # each brings its own copy of the KPL's messages
	./bin/others -rounds $(or $(ROUNDS),5) 2>bin/others.log

.PHONY: memory
memory: ## what a worker's memory is: 1,000 shards that catch up, 10,000 idle ones (docs/performance.md)
	go run ./internal/bench -memory -idle-time 30s

.PHONY: benchmarks
benchmarks: ## go test -bench everywhere; ratios are what counts
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: fuzz
fuzz: ## every fuzz target for 10 s, those of KPL aggregates for 60 s (FUZZTIME=1m for longer, FUZZ=retrieval/kpl for one folder's)
	.ci/fuzz $(or $(FUZZTIME),10s) $(FUZZ)

.PHONY: demo
demo: ## the main job on the embedded emulator
	go run ./cmd/shardlease demo

.PHONY: fanout
fanout: ## enhanced fan-out against ministack (integration/fanout.sh kinesis-local: docs/fan-out.md)
	integration/fanout.sh

.PHONY: conformance
conformance: ## every foreign server of a package registry against what is recorded of it (docs/compatibility.md)
	integration/conformance.sh

.PHONY: containers
containers: ## tests that start LocalStack and DynamoDB Local in containers; as root on Debian it brings an engine and, offline, stand-ins
	integration/containers/run.sh

.PHONY: localstack-image
localstack-image: ## an image made of the real LocalStack 4.14.0, and the tests that start its container on it
	integration/containers/run.sh integration/containers/localstack-image.sh

.PHONY: localstack
localstack: ## the real LocalStack 4.14.0 as a process: a user's test, and a fleet over it, calm and failing 3 requests in 10
	integration/localstack.sh

.PHONY: conformance-localstack
conformance-localstack: ## the same against the real LocalStack, which takes many minutes
	integration/conformance.sh localstack

.PHONY: compatibility
compatibility: ## record anew what foreign servers do (SERVERS="dynalite kinesis-local"), and make the tables of docs/compatibility.md
	integration/conformance.sh -update $(SERVERS)

.PHONY: moto
moto: ## the leases suite against moto, which must fail: its conditional writes are not atomic
	integration/conformance.sh moto

.PHONY: reshard
reshard: ## ten random histories of 200 reshards with kills, two hours each, in virtual time
	go test -count=1 -timeout 30m -run TestFleet_survivesTwoHours -v . -reshards 200 -reshard-seeds 10 -reshard-seed $(SEED)

.PHONY: storm
storm: ## half of 10,000 shards split at once, and 200 streams read by three workers, in virtual time (minutes of real time)
	go test -count=1 -timeout 55m -run 'TestFleet_takesASplitStorm|TestStreams_areSharedEvenly' -v . -storm-shards 10000 -many-streams 200

SIM := GOGC=1000 GODEBUG=gcshrinkstackoff=1 go test -count=1 -timeout 24h -v -artifacts -run TestFleets ./internal/sim -processes=2
SIM_LAST := awk '/^schedules /{last=$$0; next} {print} END{print last}'

.PHONY: sim
sim: ## whole fleets under seeded faults in virtual time (SCHEDULES=2000, or HOURS=n of real time; SEED=n; KIND=table, streams, fan-out or trims for such alone)
	@set -o pipefail; $(SIM) $(if $(KIND),-kind $(KIND)) -seed $(if $(filter-out 0,$(SEED)),$(SEED),$$RANDOM$$RANDOM) $(if $(HOURS),-hours $(HOURS),-schedules $(or $(SCHEDULES),2000)) | $(SIM_LAST)

.PHONY: sim-some
sim-some: ## some of them, as CI does each time: 300 fixed ones and 100 fresh ones
	@set -o pipefail; $(SIM) -seed 1 -schedules 300 -fresh $(or $(SCHEDULES),100) | $(SIM_LAST)

.PHONY: core
core: ## the core of the protocol on one goroutine, the same each time (SCHEDULES=20000, SEED=n)
	GOGC=400 go test -count=1 -timeout 24h -v -run TestCore_keeps ./leases -core-schedules $(or $(SCHEDULES),20000) -core-seed $(if $(filter-out 0,$(SEED)),$(SEED),1)

.PHONY: sim-long
sim-long: ## 50 schedules of ten virtual minutes
	@set -o pipefail; $(SIM) -seed $(if $(filter-out 0,$(SEED)),$(SEED),$$RANDOM$$RANDOM) -schedules $(or $(SCHEDULES),50) -lasts 10m | $(SIM_LAST)

.PHONY: sim-race
sim-race: ## 100 schedules with the race detector
	@set -o pipefail; $(SIM) -race -processes=0 -seed $(if $(filter-out 0,$(SEED)),$(SEED),$$RANDOM$$RANDOM) -schedules $(or $(SCHEDULES),100) | $(SIM_LAST)

.PHONY: examples
examples: ## the programs of examples/, a module of its own: late writes are refused; several streams and a table's are read from the emulator
	cd examples && go vet ./... && go test -count=1 -v ./...

.PHONY: balance
balance: ## whole fleets and the production planner in virtual time, beside KCL 2.x, with four times the seeds
	go run ./internal/sim/balance -seed $(if $(filter-out 0,$(SEED)),$(SEED),1) -more 4

.PHONY: requests
requests: ## what a lease costs its table in a minute, by the emulator's counters, over ten minutes of virtual time
	go test -count=1 -timeout 30m -run TestRequests -v . -request-minutes 10 | grep -v '^=== '

.PHONY: failover
failover: ## kill -9 of real workers, KILLS times (50), 500 fleets in virtual time, and each state of a hand-off: how late leases are taken
	go test -count=1 -timeout 30m -v -run TestFailover ./integration -failover-kills $(or $(KILLS),50) -failover-limit 3.3s
	go test -count=1 -timeout 30m -v -run TestFailover . -failover-seeds $(or $(SEEDS),500) -failover-seed $(SEED)
	go test -count=1 -timeout 30m -v -run TestHandoff_resolves . -stuck-seeds 20 | grep -v '^=== '

.PHONY: dynamostreams
dynamostreams: ## fleets of three over the stream of a DynamoDB table in virtual time, SEEDS of them (20) from SEED on, while everything fails
	go test -count=1 -timeout 30m -v -run TestDynamoStreams_aFleet . -chaos-seeds $(or $(SEEDS),20) -chaos-first $(if $(filter-out 0,$(SEED)),$(SEED),1) | grep -v '^=== '

.PHONY: zombie
zombie: ## SIGSTOP of a real worker for two failover times, TIMES times (20): nothing that it writes afterwards counts
	go test -count=1 -timeout 10m -parallel 5 -v -run TestZombie ./integration -zombies $(or $(TIMES),20)

.PHONY: rolling
rolling: ## rolling restart of real workers under load, over the emulator, then over kinesis-local and dynalite
	go test -count=1 -v -run TestRollingRestart ./integration
	integration/rolling.sh

.PHONY: chaos
chaos: ## real workers over dynalite and kinesis-local while processes, network, servers and clocks fail (MINUTES=10, SEED=n; docs/chaos.md)
	integration/chaos.sh -minutes $(or $(MINUTES),10) -seed $(SEED)

.PHONY: clocks
clocks: ## the same with nothing wrong but wall clocks: no lease may move (45 s; needs linux on amd64)
	integration/chaos.sh -clocks -minutes 0.75

.PHONY: renewal
renewal: ## 1,000 leases for ten virtual hours on a table of which 5 % fails, with outages
	go test -count=1 -timeout 30m -run 'TestRenewal_' -v ./leases -renewal-leases 1000 -renewal-hours 10 -renewal-seed $(if $(filter-out 0,$(SEED)),$(SEED),1)

.PHONY: model
model: ## explore the models of the protocol, and those without one of its guards (formal/README.md)
	go run ./formal

.PHONY: mutants
mutants: ## break the guards of the library one at a time: each must be noticed by a test (ONLY=n for one)
	go run ./internal/sim/mutants $(if $(ONLY),-only $(ONLY))

.PHONY: mutants-some
mutants-some: ## five of them, as CI does each time
	go run ./internal/sim/mutants -some

.PHONY: flights-20k
flights-20k: ## 20,000 real flights through kinesis-local and dynalite, one consumer killed
	integration/flights.sh 20k

.PHONY: flights-200k
flights-200k: ## 200,000 real flights through the emulator, one consumer killed
	integration/flights.sh 200k

JAVA := go test -count=1 -v -parallel 2 -artifacts ./integration/javakcl -java
JAVA_SHOWN := grep --line-buffered -vE '^=== (RUN|PAUSE|CONT|NAME)'

.PHONY: java
java: ## the real Java KCL: 3.5.1 alone on the emulator, by polling and by fan-out, and 2.7.2 mixed with Go workers, with a short failover time
	@set -o pipefail; $(JAVA) -timeout 8m -run 'TestJavaAlone/3.5.1_3X|TestFanOut/3.5.1_3X|TestMixedFleet/2.7.2' -java-failover 5s -java-settled 15s -java-watch 30s -java-stop 15s | $(JAVA_SHOWN)

.PHONY: java-full
java-full: ## both versions in all modes: alone, mixed, replaced worker by worker in both directions, by polling and by fan-out, changed to 3.x mode (35 min)
	@set -o pipefail; $(JAVA) -timeout 90m | $(JAVA_SHOWN)

.PHONY: ci
ci: ## what CI runs
	.ci/run

.PHONY: lane
lane: ## one lane of CI: make lane LANE=race
	@test -n '$(LANE)' || { echo 'name a lane: make lane LANE=race'; exit 2; }
	.ci/run '$(LANE)'

.PHONY: full
full: ## CI and all that takes longer, lane by lane; goes on where it was broken off (FRESH=1 does not; .ci/full LANE: one alone)
	FRESH=$(FRESH) .ci/full

.PHONY: full-table
full-table: ## put the results of make full into docs/compatibility.md
	.ci/full -table

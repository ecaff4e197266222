#!/usr/bin/env bash
# The conformance suites of both seams against foreign servers: the lease table against dynalite, the stream against
# kinesis-local (npm packages of integration/servers); then a fleet of processes that starts at LATEST, against both.
set -euo pipefail
cd "$(dirname "$0")/.."
. integration/servers/lib.sh
servers_install
trap servers_stop EXIT
start_dynalite
start_kinesis_local
SHARDLEASE_DYNAMODB_ENDPOINT=$DYNAMODB_URL SHARDLEASE_DYNAMODB_KIND=dynalite go test -count=1 -parallel 16 ./internal/leasetest/... ./leases/...
SHARDLEASE_KINESIS_ENDPOINT=$KINESIS_URL SHARDLEASE_KINESIS_KIND=kinesis-local go test -count=1 ./internal/sourcetest/...
SHARDLEASE_KINESIS_ENDPOINT=$KINESIS_URL SHARDLEASE_DYNAMODB_ENDPOINT=$DYNAMODB_URL go test -count=1 -v -run TestLatest ./integration

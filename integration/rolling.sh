#!/usr/bin/env bash
# The rolling restart of real worker processes over kinesis-local and dynalite. Its figures are those of the servers too.
set -euo pipefail
cd "$(dirname "$0")/.."
. integration/servers/lib.sh
servers_install
trap servers_stop EXIT
start_dynalite
start_kinesis_local
export SHARDLEASE_KINESIS_ENDPOINT=$KINESIS_URL SHARDLEASE_DYNAMODB_ENDPOINT=$DYNAMODB_URL
go test -count=1 -v -parallel 1 -run TestRollingRestart ./integration

#!/usr/bin/env bash
# Real flights through a fleet of two, one of them killed half way.
#   integration/flights.sh 20k    through kinesis-local, leases in dynalite (npm packages of integration/servers)
#   integration/flights.sh 200k   through our emulator
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  20k) key=origin ;;
  200k) key=distance ;;
  *) echo "usage: integration/flights.sh 20k|200k" >&2; exit 2 ;;
esac
. integration/servers/lib.sh
servers_install
work=$(mktemp -d); trap 'servers_stop; rm -rf "$work"' EXIT
go build -o "$work/shardlease" ./cmd/shardlease
go build -o "$work/flights" ./integration/flights
if [ "$1" = 20k ]; then
  INITIALIZE_STREAMS=flights:4 start_kinesis_local
  start_dynalite
else
  start_emulator "$work/shardlease" --stream flights:4
fi
"$work/flights" -bin "$work/shardlease" -file "integration/servers/node_modules/vega-datasets/data/flights-$1.json" \
  -key-field "$key" -kinesis-endpoint "$KINESIS_URL" -dynamodb-endpoint "$DYNAMODB_URL"

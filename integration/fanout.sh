#!/usr/bin/env bash
# Enhanced fan-out against foreign servers: ministack has the rules of subscriptions, kinesis-local leaves out their first message.
set -euo pipefail
cd "$(dirname "$0")/.."
. integration/servers/lib.sh
trap servers_stop EXIT
servers_install
ministack_install
for kind in ministack kinesis-local; do
  "start_${kind//-/_}"
  echo "== fan-out: $kind"
  SHARDLEASE_KINESIS_ENDPOINT=$KINESIS_URL SHARDLEASE_KINESIS_KIND=$kind go test -count=1 -v -run TestFanOut_againstAServer ./integration
  servers_stop
done

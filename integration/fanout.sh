#!/usr/bin/env bash
# Enhanced fan-out against foreign servers.
#   integration/fanout.sh [SERVER...]   ministack, which has the rules of subscriptions, if none is named; kinesis-local leaves out
#                                       their first message and forgets a consumer now and then, so its runs fail now and then
set -euo pipefail
cd "$(dirname "$0")/.."
. integration/servers/lib.sh
trap servers_stop EXIT
servers_install
ministack_install
[ $# -gt 0 ] || set -- ministack
for kind; do
  "start_${kind//-/_}"
  echo "== fan-out: $kind"
  SHARDLEASE_KINESIS_ENDPOINT=$KINESIS_URL SHARDLEASE_KINESIS_KIND=$kind go test -count=1 -v -run TestFanOut_againstAServer ./integration
  servers_stop
done

#!/usr/bin/env bash
# The real LocalStack 4.14.0, as a process: a user's test, then a fleet of processes through a split, a merge, a kill and a rolling
# restart; and beside that the same fleet over another LocalStack, which fails three in ten of the requests
# for DynamoDB and of the puts into Kinesis.
# It is slow: about twenty writes a second. docs/localstack.md says what of it is LocalStack.
#
# Where it cannot be installed this says why and does nothing; with SHARDLEASE_REQUIRE_LOCALSTACK=1 it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. integration/servers/lib.sh
. integration/localstack/lib.sh
if ! localstack_possible; then
  echo "localstack.sh: NOT RUN" >&2
  [ "${SHARDLEASE_REQUIRE_LOCALSTACK:-0}" != 1 ]
  exit
fi
began=$SECONDS
localstack_install
echo "localstack.sh: installed after $((SECONDS - began))s"
work=$(mktemp -d); trap 'localstack_stop; rm -rf "$work"' EXIT
go test -c -o "$work/integration.test" ./integration
go test -c -o "$work/awstest.test" ./integration/awstest

# Both at once: one waits while the other computes.
start=$SECONDS
LOCALSTACK_LOG=$work/calm.log start_localstack
calm=$KINESIS_URL
LOCALSTACK_LOG=$work/faulty.log start_localstack DYNAMODB_ERROR_PROBABILITY=0.3 KINESIS_ERROR_PROBABILITY=0.3
faulty=$KINESIS_URL
echo "localstack.sh: both answer after $((SECONDS - start))s"

at() { SHARDLEASE_KINESIS_ENDPOINT=$1 SHARDLEASE_DYNAMODB_ENDPOINT=$1 "${@:2}"; }
fleet=("$work/integration.test" -test.run TestFleet -test.v -fleet-failover 5s -fleet-pause 1s)
start=$SECONDS rc=0
at "$faulty" "${fleet[@]}" >"$work/faulty" 2>&1 & pid=$!
(cd integration/awstest && at "$calm" "$work/awstest.test" -test.run TestConsumer -test.v) || rc=1
at "$calm" "${fleet[@]}" || rc=1
wait "$pid" || rc=1
echo "localstack.sh: the fleet over the LocalStack that fails 3 requests in 10:"
cat "$work/faulty"
echo "localstack.sh: tests $((SECONDS - start))s, all $((SECONDS - began))s"
[ "$rc" = 0 ] || tail -n 20 "$work"/*.log
exit "$rc"

#!/usr/bin/env bash
# Runs the tests that start containers, on the engine that is there or, as root on Debian or Ubuntu, on one that is installed
# and started for them and taken down afterwards.
#
#	integration/containers/run.sh [COMMAND...]   another command than the tests, which brings its own images
#
# Where there is no engine and none can be started it says so and does nothing; with SHARDLEASE_REQUIRE_CONTAINERS=1 it fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
began=$SECONDS
rc=0
vars=$("$here/engine-up.sh") || rc=$?
if [ "$rc" = 3 ] && [ "${SHARDLEASE_REQUIRE_CONTAINERS:-0}" != 1 ]; then
  echo "run.sh: NOT RUN: without a container engine there is nothing to test" >&2
  exit 0
fi
[ "$rc" = 0 ] || exit "$rc"
trap '"$here/engine-down.sh"' EXIT
eval "$vars"
[ "${SHARDLEASE_OWN_ENGINE:-}" = 1 ] || trap - EXIT
[ $# -gt 0 ] || "$here/images.sh"
echo "run.sh: ready after $((SECONDS - began))s" >&2
if [ $# -gt 0 ]; then
  "$@"
else
  go test -count=1 -v ./integration/containers ./integration/awstest
  # The user's module again where no engine answers, unless one does at the usual place.
  env -u DOCKER_HOST -u SHARDLEASE_REQUIRE_CONTAINERS go test -count=1 -v -run UsersModule ./integration/awstest
fi
echo "run.sh: done after $((SECONDS - began))s" >&2

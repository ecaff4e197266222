#!/usr/bin/env bash
# Gives the engine of engine-up.sh the two images that the tests start. It pulls them; where that is impossible (no network, or
# a registry that cannot be reached) it makes stand-ins: this repository's emulator, as one static binary, under the same
# names. A stand-in carries the label shardlease.standin and says what it is, as do the tests that run on it.
#
#	SHARDLEASE_PULL=0   does not try to pull
#
# It works on an engine of engine-up.sh only: no other engine's images are given false names.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "${SHARDLEASE_OWN_ENGINE:-}" = 1 ] || { echo "images.sh: not the engine of engine-up.sh: its images are left as they are" >&2; exit 0; }
label=shardlease.standin
root=$(mktemp -d)
trap 'rm -rf -- "$root"' EXIT

image() { # image NAME PORT
  docker image inspect "$1" >/dev/null 2>&1 && return
  if [ "${SHARDLEASE_PULL:-1}" = 1 ] && timeout 600 docker pull --quiet "$1" >/dev/null 2>"$root/pull"; then
    echo "images.sh: $1 was pulled: it is the real one" >&2
    return
  fi
  [ -e "$root/standin" ] || CGO_ENABLED=0 go build -ldflags '-s -w' -o "$root/standin" ./integration/containers/standin
  tar -C "$root" -c standin | docker import -c "LABEL $label=true" -c "ENV STANDIN_PORT=$2" -c "EXPOSE $2" -c 'ENTRYPOINT ["/standin"]' - "$1" >/dev/null
  echo "images.sh: $1 is a STAND-IN, our own emulator under that name$([ ! -s "$root/pull" ] || echo "; pulling it: $(head -c 200 "$root/pull" | head -n 1)")" >&2
}
image localstack/localstack:4.14.0 4566
image amazon/dynamodb-local:3.3.0 8000

#!/usr/bin/env bash
# Worker processes, network, servers and clocks fail by a schedule (docs/chaos.md).
#   integration/chaos.sh -minutes 10 -seed 7
#   integration/chaos.sh -clocks -minutes 0.5
set -euo pipefail
cd "$(dirname "$0")/.."
. integration/servers/lib.sh
servers_install
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
# The tag and the flag are for clocks that jump: integration/chaos/wall_shift.go.
go build -tags wallshift -ldflags=-checklinkname=0 -o "$work/chaos" ./integration/chaos
"$work/chaos" "$@"

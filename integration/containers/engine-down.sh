#!/usr/bin/env bash
# Stops the engine that engine-up.sh started, with its containers, and removes its images, data and bridge. An engine that
# was there before is left alone. The packages stay.
set -euo pipefail
. "$(dirname "$0")/engine.sh"

[ -d "$state" ] || { say "no engine of ours: nothing to do"; exit 0; }
# Containers outlive an engine that was killed, and only an engine can end them properly.
if ! ours && grep -zqsF -- "$state/exec/" /proc/[0-9]*/cmdline; then
  say "the engine was killed and left containers: it is started again to end them"
  "$(dirname "$0")/engine-up.sh" >/dev/null
fi
if ours; then
  kill -TERM "$pid"
  deadline=$((SECONDS + 60))
  while ours; do
    ((SECONDS < deadline)) || fail "process $pid does not end; see $state/dockerd.log"
    sleep 0.1
  done
fi
if [ -e "$state/made-bridge" ] && command -v ip >/dev/null; then
  ip link delete docker0 2>/dev/null || true
fi
# A killed engine leaves mounts, which would make rm fail or, worse, reach into them.
awk -v a="$state/" -v b="$data" '{ p = $5 } index(p, a) == 1 || p == b || index(p, b "/") == 1 { print p }' /proc/self/mountinfo |
  sort -r | while read -r m; do umount "$m"; done
rm -rf -- "$state" "$data"
say "stopped and removed"

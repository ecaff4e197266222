#!/usr/bin/env bash
# Makes a container engine answer, and prints on stdout what tests need to find it:
#
#	vars=$(integration/containers/engine-up.sh)
#	eval "$vars"
#
# (two lines: in a script under set -e, eval "$(...)" would hide a failure). An engine that answers already is used as it
# is. Otherwise, as root on Debian or Ubuntu, docker.io is installed where it is missing, and an engine is started with
# a socket, state and data of its own, for engine-down.sh to take away again. It leaves the firewall and the kernel's
# forwarding as they are, so containers have no way out, and publishes their ports on 127.0.0.1 only. Running it again is harmless.
#
#	SHARDLEASE_ENGINE_STATE  sockets, log, pid (default /run/shardlease-engine; a socket's path ends at 107 bytes)
#	SHARDLEASE_ENGINE_DATA   images and containers (default /var/lib/shardlease-engine)
#
# Exit status 3: there is no engine, and this is not the place to start one.
set -euo pipefail
. "$(dirname "$0")/engine.sh"

if command -v docker >/dev/null; then
  if ours && version=$(answers "$sock"); then
    say "our engine $version answers at $sock"
    print_ours
    exit 0
  fi
  if version=$(answers); then
    say "an engine ($version) answers already at ${DOCKER_HOST:-the default socket}: it is used as it is"
    echo "export SHARDLEASE_REQUIRE_CONTAINERS=1"
    exit 0
  fi
fi

[ "$(id -u)" = 0 ] || { say "no container engine answers, and only root can start one here"; exit 3; }
if ! command -v dockerd >/dev/null; then
  command -v apt-get >/dev/null || { say "no container engine answers, and there is no apt-get to install one with"; exit 3; }
  say "installing docker.io"
  install_packages docker.io
  # From Debian 13 on the client is a package of its own.
  command -v docker >/dev/null || install_packages docker-cli
fi

! ours || fail "our engine (process $pid) runs but does not answer; see $state/dockerd.log, or run engine-down.sh"
mkdir -p "$state" "$data"
chmod 700 "$state"
# After a kill, a stale pid file of either process keeps dockerd from starting for as long as some process has that pid,
# be it one that process 1 has not reaped yet.
rm -f "$state/dockerd.pid" "$state/exec/containerd/containerd.pid"
[ -e /sys/class/net/docker0 ] || touch "$state/made-bridge"
# Were stdout left open, $(engine-up.sh) would wait for the engine to end.
setsid dockerd --host "$sock" --data-root "$data" --exec-root "$state/exec" --pidfile "$state/dockerd.pid" \
  --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false --ip 127.0.0.1 \
  >"$state/dockerd.log" 2>&1 </dev/null &
started=$!
deadline=$((SECONDS + 120))
until version=$(answers "$sock"); do
  kill -0 "$started" 2>/dev/null || { tail -n 5 "$state/dockerd.log" >&2; fail "dockerd ended at once; its last lines are above"; }
  ((SECONDS < deadline)) || fail "dockerd does not answer after two minutes; see $state/dockerd.log"
  sleep 0.1
done
# What a killed run left behind.
docker --host "$sock" ps -aq --filter label=org.testcontainers=true | xargs -r docker --host "$sock" rm -f >/dev/null
say "engine $version started at $sock"
print_ours

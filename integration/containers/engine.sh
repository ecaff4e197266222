# What engine-up.sh and engine-down.sh have in common. Source it.
state=${SHARDLEASE_ENGINE_STATE:-/run/shardlease-engine}
data=${SHARDLEASE_ENGINE_DATA:-/var/lib/shardlease-engine}
sock=unix://$state/docker.sock
export PATH=$PATH:/usr/sbin:/sbin

say() { echo "${0##*/}: $*" >&2; }
fail() { say "$*"; exit 1; }

# answers [HOST]: prints the version of the engine, if there is one. A client without an engine proves nothing.
answers() { timeout 10 docker ${1:+--host "$1"} version --format '{{.Server.Version}}' 2>/dev/null; }

# ours: the engine that engine-up.sh started runs, as process $pid. Going by the command line, not by kill -0 or the pid
# file alone, keeps out a process that is dead and not reaped, and a pid that has a new owner.
ours() {
  pid=$(cat "$state/dockerd.pid" 2>/dev/null) && [ -n "$pid" ] &&
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "--pidfile $state/dockerd.pid"
}

print_ours() {
  # localhost: where /.dockerenv exists, testcontainers-go takes itself for a container and looks for the ports on the
  # default gateway. No reaper (Ryuk): its image cannot be pulled everywhere, and engine-down.sh takes all away.
  cat <<-VARS
	export DOCKER_HOST=$sock
	export TESTCONTAINERS_HOST_OVERRIDE=localhost
	export TESTCONTAINERS_RYUK_DISABLED=true
	export SHARDLEASE_REQUIRE_CONTAINERS=1
	export SHARDLEASE_OWN_ENGINE=1
	VARS
}

install_packages() {
  local log; log=$(mktemp)
  { DEBIAN_FRONTEND=noninteractive apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null ||
    { tail -n 20 "$log" >&2; rm -f "$log"; fail "installing $* failed"; }
  rm -f "$log"
}

# Starts and stops the servers that integration tests run against. Source it from the repository's root; it defines
# functions only. Each start_* waits until the server answers and sets KINESIS_URL or DYNAMODB_URL.
# The npm packages are pinned in integration/servers; what is not from npm is installed once, outside the repository.
servers_dir=$PWD/integration/servers
servers_tools=${XDG_CACHE_HOME:-$HOME/.cache}/shardlease-tools/servers
server_pids=()
DYNOXIDE_VERSION=3.2.0 MINISTACK_VERSION=1.5.33 MOTO_VERSION=5.2.5

servers_install() {
  [ -d "$servers_dir/node_modules/kinesalite" ] && [ "$servers_dir/node_modules/.package-lock.json" -nt "$servers_dir/package-lock.json" ] && return
  (cd "$servers_dir" && npm ci --no-audit --no-fund --loglevel=error)
}

# install_once NAME-VERSION COMMAND...: runs the command, with where to install to as its last argument, unless that has
# succeeded before. Several may ask at once: one installs, where there is flock.
install_once() (
  name=$1 to=$servers_tools/$1 began=$SECONDS; shift
  mkdir -p "$servers_tools"
  if command -v flock >/dev/null; then exec 9>"$to.lock"; flock 9; fi
  [ -e "$to/.installed" ] && exit
  rm -rf "$to"; mkdir -p "$to"
  "$@" "$to" 9>&- && touch "$to/.installed" && echo "installed $name in $((SECONDS - began))s"
)

# About 3 minutes of computing, once; npm packages and Python ones take seconds.
dynoxide_install() { install_once "dynoxide-$DYNOXIDE_VERSION" cargo_dynoxide; }
ministack_install() { install_once "ministack-$MINISTACK_VERSION" pip_into "ministack==$MINISTACK_VERSION"; }
moto_install() { install_once "moto-$MOTO_VERSION" pip_into "moto[server]==$MOTO_VERSION"; }

cargo_dynoxide() {
  nice cargo install --quiet --locked --root "$1" "dynoxide-rs@$DYNOXIDE_VERSION" --no-default-features --features native-sqlite,http-server,cli
}
pip_into() { python3 -m venv "$2" && "$2/bin/pip" install --quiet --disable-pip-version-check "$1"; }

# npm_version PACKAGE: as pinned.
npm_version() { node -p "require('$servers_dir/package.json').dependencies['$1']"; }

# A port that is free now.
free_port() { node -e 'const s=require("net").createServer();s.listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }

# wait_http URL NAME: until it answers anything.
wait_http() {
  local i
  for i in $(seq 1 150); do
    curl -s -o /dev/null --max-time 2 "$1" && return 0
    sleep 0.1
  done
  echo "$2 does not answer at $1" >&2
  return 1
}

start_dynalite() {
  local port; port=$(free_port)
  node --require "$servers_dir/aborts.js" "$servers_dir/node_modules/dynalite/cli.js" --host 127.0.0.1 --port "$port" --createTableMs 50 --updateTableMs 50 --deleteTableMs 50 >/dev/null &
  server_pids+=($!)
  DYNAMODB_URL=http://127.0.0.1:$port
  wait_http "$DYNAMODB_URL" dynalite
}

# dynoxide: DynamoDB on SQLite, in memory.
start_dynoxide() {
  local port; port=$(free_port)
  "$servers_tools/dynoxide-$DYNOXIDE_VERSION/bin/dynoxide" --host 127.0.0.1 --port "$port" "$@" >/dev/null 2>&1 &
  server_pids+=($!)
  DYNAMODB_URL=http://127.0.0.1:$port
  wait_http "$DYNAMODB_URL" dynoxide
}

# ministack: one endpoint for both services. It listens on all interfaces, whatever it is told.
start_ministack() {
  local port; port=$(free_port)
  GATEWAY_PORT=$port SERVICES=kinesis,dynamodb "$servers_tools/ministack-$MINISTACK_VERSION/bin/ministack" >/dev/null 2>&1 &
  server_pids+=($!)
  KINESIS_URL=http://127.0.0.1:$port DYNAMODB_URL=http://127.0.0.1:$port
  wait_http "$KINESIS_URL/_ministack/health" ministack
}

# moto: one endpoint for both services, fit for neither (docs/compatibility.md).
start_moto() {
  local port; port=$(free_port)
  "$servers_tools/moto-$MOTO_VERSION/bin/moto_server" -H 127.0.0.1 -p "$port" >/dev/null 2>&1 &
  server_pids+=($!)
  KINESIS_URL=http://127.0.0.1:$port DYNAMODB_URL=http://127.0.0.1:$port
  wait_http "$KINESIS_URL/moto-api/" moto
}

# kinesalite listens on all interfaces; it has no option.
start_kinesalite() {
  local port; port=$(free_port)
  node "$servers_dir/node_modules/kinesalite/cli.js" --port "$port" --shardLimit 1000 --createStreamMs 50 --updateStreamMs 50 --deleteStreamMs 50 >/dev/null 2>&1 &
  server_pids+=($!)
  KINESIS_URL=http://127.0.0.1:$port
  wait_http "$KINESIS_URL" kinesalite
}

start_kinesis_local() {
  local port tls; port=$(free_port); tls=$(free_port)
  (cd "$servers_dir" && exec env KINESIS_MOCK_CERT_PATH="$servers_dir/node_modules/kinesis-local/server.json" KINESIS_MOCK_TLS_PORT="$tls" KINESIS_MOCK_PLAIN_PORT="$port" \
    SHARD_LIMIT=1000 ON_DEMAND_STREAM_COUNT_LIMIT=100 LOG_LEVEL=ERROR CREATE_STREAM_DURATION=50ms DELETE_STREAM_DURATION=50ms \
    SPLIT_SHARD_DURATION=50ms MERGE_SHARDS_DURATION=50ms UPDATE_SHARD_COUNT_DURATION=50ms REGISTER_STREAM_CONSUMER_DURATION=50ms \
    DEREGISTER_STREAM_CONSUMER_DURATION=50ms node node_modules/kinesis-local/main.js >/dev/null 2>&1) &
  server_pids+=($!)
  KINESIS_URL=http://127.0.0.1:$port
  wait_http "$KINESIS_URL" kinesis-local
}

# start_emulator BINARY [ARGS of "shardlease emulator"]: one endpoint for both services.
start_emulator() {
  local bin=$1 port; shift; port=$(free_port)
  "$bin" emulator --listen "127.0.0.1:$port" "$@" >/dev/null &
  server_pids+=($!)
  KINESIS_URL=http://127.0.0.1:$port DYNAMODB_URL=http://127.0.0.1:$port
  wait_http "$KINESIS_URL" "shardlease emulator"
}

servers_stop() {
  local pid
  for pid in "${server_pids[@]:-}"; do [ -n "$pid" ] && kill "$pid" 2>/dev/null || true; done
  for pid in "${server_pids[@]:-}"; do [ -n "$pid" ] && wait "$pid" 2>/dev/null || true; done
  server_pids=()
}

# Starts and stops the servers that integration tests run against. Source it from the repository's root; it defines
# functions only. Each start_* waits until the server answers and sets KINESIS_URL or DYNAMODB_URL.
servers_dir=$PWD/integration/servers
server_pids=()

servers_install() {
  [ -d "$servers_dir/node_modules/dynalite" ] && [ "$servers_dir/node_modules/.package-lock.json" -nt "$servers_dir/package-lock.json" ] && return
  (cd "$servers_dir" && npm ci --no-audit --no-fund --loglevel=error)
}

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

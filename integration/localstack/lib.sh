# Installs and starts the real LocalStack 4.14.0 as a process, without an engine and without an account. Source it after
# integration/servers/lib.sh, from the repository's root.
#
# What of it is LocalStack: the gateway, the Kinesis provider and its engine (kinesis-mock, the npm package kinesis-local 0.5.2 that
# LocalStack would download itself), the DynamoDB provider. What is not: the storage behind the DynamoDB provider, which
# is dynoxide instead of Amazon's DynamoDB Local (integration/localstack/plugin; docs/localstack.md).
LOCALSTACK_VERSION=4.14.0 LOCALSTACK_KINESIS_VERSION=0.5.2
localstack_dir=$servers_tools/localstack-$LOCALSTACK_VERSION
localstack_roots=() localstack_pids=()

# python313: prints the path of a Python 3.13, which LocalStack 4.14.0 needs; 3.11 fails with a SyntaxError.
python313() {
  local p
  for p in python3.13 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13*/bin/python; do
    # A shim of pyenv's is there and fails when no such version is selected.
    "$p" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null && { command -v "$p"; return 0; }
  done
  return 1
}

# localstack_possible: or says why not.
localstack_possible() {
  python313 >/dev/null || { echo "LocalStack $LOCALSTACK_VERSION needs Python 3.13: none was found" >&2; return 1; }
  command -v npm >/dev/null || { echo "LocalStack's Kinesis needs Node.js and npm: none was found" >&2; return 1; }
  [ -x "$servers_tools/dynoxide-$DYNOXIDE_VERSION/bin/dynoxide" ] || command -v cargo >/dev/null ||
    { echo "LocalStack's DynamoDB is to run on dynoxide, and there is no cargo to build it with" >&2; return 1; }
}

# About a minute, 0.5 GB, once. dynoxide, three minutes of computing, is built beside it where it is missing.
localstack_install() {
  # One installs quietly while the other does; both are shared with other suites and may be there.
  dynoxide_install &
  local dynoxide=$!
  install_once "localstack-$LOCALSTACK_VERSION" localstack_into || { wait "$dynoxide"; return 1; }
  wait "$dynoxide"
}

localstack_into() {
  local to=$1 here=$PWD/integration/localstack
  "$(python313)" -m venv "$to/venv" &&
    "$to/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt" &&
    cp -r "$here/plugin" "$to/plugin" && # pip writes into the folder from which it installs
    "$to/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation "$to/plugin" &&
    npm install --no-audit --no-fund --loglevel=error --prefix "$to/fs/var/lib/localstack/lib/kinesis-local/$LOCALSTACK_KINESIS_VERSION" "kinesis-local@$LOCALSTACK_KINESIS_VERSION" >/dev/null
}

# start_localstack [NAME=VALUE...]: one endpoint for both services, over a dynoxide of its own. It listens on all interfaces,
# whatever GATEWAY_LISTEN says. Stop it by localstack_stop.
start_localstack() {
  start_dynoxide || return 1
  local port i root; port=$(free_port); root=$(mktemp -d)
  # Kinesis saves its streams under the root every few seconds, and would begin with those of another LocalStack on the same one.
  localstack_roots+=("$root")
  mkdir -p "$root/var/lib/localstack"
  ln -s "$localstack_dir/fs/var/lib/localstack/lib" "$root/var/lib/localstack/lib"
  env -u AWS_ENDPOINT_URL PATH="$localstack_dir/venv/bin:$PATH" OVERRIDE_IN_DOCKER=0 FILESYSTEM_ROOT="$root" GATEWAY_LISTEN="127.0.0.1:$port" \
    SERVICES=kinesis,dynamodb,sts EAGER_SERVICE_LOADING=1 DISABLE_EVENTS=1 SKIP_SSL_CERT_DOWNLOAD=1 LS_LOG=error \
    KINESIS_MOCK_LOG_LEVEL=ERROR KINESIS_LATENCY=50 KINESIS_SHARD_LIMIT=1000 KINESIS_ON_DEMAND_STREAM_COUNT_LIMIT=100 \
    PROVIDER_OVERRIDE_DYNAMODB=elsewhere DYNAMODB_ELSEWHERE_URL="$DYNAMODB_URL" "$@" python -m localstack.runtime.main >"${LOCALSTACK_LOG:-/dev/null}" 2>&1 &
  local pid=$!
  server_pids+=($pid) localstack_pids+=($pid)
  KINESIS_URL=http://127.0.0.1:$port DYNAMODB_URL=http://127.0.0.1:$port
  for ((i = 0; i < 600; i++)); do
    # The first ListStreams starts the Kinesis engine, which takes up to ten seconds.
    curl -s --max-time 2 "$KINESIS_URL/_localstack/health" | grep -q '"kinesis": "running"' &&
      curl -sf --max-time 30 -o /dev/null "$KINESIS_URL" -H 'X-Amz-Target: Kinesis_20131202.ListStreams' -H 'Content-Type: application/x-amz-json-1.1' \
        -H 'Authorization: AWS4-HMAC-SHA256 Credential=000000000000/20260101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=x' -d '{}' && return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.2
  done
  echo "LocalStack does not answer at $KINESIS_URL${LOCALSTACK_LOG:+; its log is $LOCALSTACK_LOG}" >&2
  return 1
}

# localstack_stop: it and all other servers. A LocalStack that is told to end while it starts does not: it is killed after 15 s.
localstack_stop() {
  local pid i
  for pid in "${localstack_pids[@]:-}"; do [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; done
  for pid in "${localstack_pids[@]:-}"; do
    [ -n "$pid" ] || continue
    for ((i = 0; i < 75; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
    kill -9 "$pid" 2>/dev/null || true
  done
  servers_stop
  rm -rf -- "${localstack_roots[@]:-}"
  localstack_roots=() localstack_pids=()
}

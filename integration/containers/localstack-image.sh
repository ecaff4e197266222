#!/usr/bin/env bash
# Gives the engine of engine-up.sh an image of the real LocalStack 4.14.0 under its name, made from its Python distribution
# as integration/localstack/lib.sh installs it, and runs the tests that start containers on it:
#
#	integration/containers/run.sh integration/containers/localstack-image.sh
#
# In it: this machine's Python 3.13, its Node.js, LocalStack with its Kinesis engine, dynoxide in place of DynamoDB Local
# (docs/localstack.md), and of the system the shared libraries that these need, two time zones, and a shell. No package manager, no Dockerfile:
# docker import of a tar.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "${SHARDLEASE_OWN_ENGINE:-}" = 1 ] || { echo "localstack-image.sh: not the engine of engine-up.sh: run it by run.sh" >&2; exit 1; }
. integration/servers/lib.sh
. integration/localstack/lib.sh
localstack_possible || exit 1
localstack_install
image=localstack/localstack:4.14.0
began=$SECONDS
root=$(mktemp -d); trap 'rm -rf -- "$root"' EXIT

# What the image starts. The health check answers before Kinesis is asked for the first time.
mkdir -p "$root/usr/local/bin" "$root/tmp" "$root/run" "$root/etc"
chmod 1777 "$root/tmp"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
cat >"$root/usr/local/bin/start" <<START
#!/bin/sh
$servers_tools/dynoxide-$DYNOXIDE_VERSION/bin/dynoxide --host 127.0.0.1 --port 4500 &
exec $localstack_dir/venv/bin/python -m localstack.runtime.main
START
chmod +x "$root/usr/local/bin/start"

python=$("$localstack_dir/venv/bin/python" -c 'import sys; print(sys.base_prefix)')
node=$(readlink -f "$(command -v node)")
programs=("$python/bin/python3.13" "$node" /bin/sh /usr/bin/env "$servers_tools/dynoxide-$DYNOXIDE_VERSION/bin/dynoxide")
{
  printf '%s\n' "$python" "$localstack_dir" "${programs[@]:1}" /usr/share/zoneinfo/UTC /usr/share/zoneinfo/GMT
  # The libraries of every program and module, and what glibc opens by name, to resolve hosts. What is in the folders anyway must
  # not be there twice.
  { find "$python" "$localstack_dir/venv" -name '*.so*' -type f; printf '%s\n' "${programs[@]}"; } |
    xargs ldd 2>/dev/null | awk '$3 ~ /^\// { print $3 } $1 ~ /^\/lib/ && NF == 2 { print $1 }' | grep -v -e "^$python/" -e "^$localstack_dir/"
  find "$(dirname "$(ldd /bin/sh | awk '/libc.so/ { print $3 }')")"/ -maxdepth 1 -name 'libnss_*.so*' -o -maxdepth 1 -name 'libresolv.so*'
} | sed 's://:/:g' | sort -u >"$root.files"
# Links are packed as what they point at; the venv's lib64, which points at its lib, is left out.
tar --create --dereference --hard-dereference --absolute-names --files-from "$root.files" --exclude='__pycache__' --exclude="$python/lib/python3.13/test" --exclude="$localstack_dir/venv/lib64" \
  --ignore-failed-read --directory "$root" usr tmp run etc 2>"$root.errors" |
  docker import \
    -c "ENV PATH=$localstack_dir/venv/bin:$(dirname "$node"):/usr/local/bin:/usr/bin:/bin" \
    -c "ENV OVERRIDE_IN_DOCKER=0 GATEWAY_LISTEN=0.0.0.0:4566 FILESYSTEM_ROOT=$localstack_dir/fs SKIP_SSL_CERT_DOWNLOAD=1 EAGER_SERVICE_LOADING=1" \
    -c "ENV PROVIDER_OVERRIDE_DYNAMODB=elsewhere DYNAMODB_ELSEWHERE_URL=http://127.0.0.1:4500" \
    -c "LABEL shardlease.localstack=python-distribution" \
    -c 'EXPOSE 4566' -c 'ENTRYPOINT ["/usr/local/bin/start"]' - "$image" >/dev/null
rm -f "$root.files" "$root.errors"
echo "localstack-image.sh: $image is the real LocalStack 4.14.0 over dynoxide, $(($(docker image inspect --format '{{.Size}}' "$image") / 1000000)) MB, made in $((SECONDS - began))s" >&2

# The first call to Kinesis starts its engine: that is what most of the time goes into.
go test -count=1 -v -run 'TestLocalStack_serves' ./integration/containers
go test -count=1 -v -run 'TestConsumer' ./integration/awstest
echo "localstack-image.sh: all $((SECONDS - began))s" >&2

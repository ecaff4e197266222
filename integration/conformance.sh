#!/usr/bin/env bash
# Both seams and an audited fleet against every foreign server that a package registry has, compared with what is recorded of each
# (integration/matrix); random requests at our emulator and at three of the servers; a fleet that starts at LATEST.
#   integration/conformance.sh                        what CI runs
#   integration/conformance.sh -update                records what is seen, and makes docs/compatibility.md anew
#   integration/conformance.sh [-update] SERVER...    only these; "moto" and "localstack" only if they are named
set -euo pipefail
cd "$(dirname "$0")/.."
flags=() named=()
for a in "$@"; do case $a in -*) flags+=("$a") ;; *) named+=("$a") ;; esac; done
[ ${#named[@]} -gt 0 ] || named=(emulator dynalite dynoxide ministack kinesis-local kinesalite)
wanted() { [[ " ${named[*]} " = *" $1 "* ]]; }

. integration/servers/lib.sh
servers_install
if wanted dynoxide; then dynoxide_install; fi
if wanted ministack; then ministack_install; fi
if wanted moto; then moto_install; fi
if wanted localstack; then . integration/localstack/lib.sh; localstack_possible; localstack_install; fi
trap servers_stop EXIT
args=() dynamodb=() streams=()
if wanted emulator; then args+=(emulator); fi
if wanted dynalite; then start_dynalite; args+=("dynalite@$(npm_version dynalite)=$DYNAMODB_URL"); dynamodb+=("dynalite $DYNAMODB_URL"); fi
if wanted dynoxide; then start_dynoxide; args+=("dynoxide@$DYNOXIDE_VERSION=$DYNAMODB_URL"); dynamodb+=("dynoxide $DYNAMODB_URL"); fi
if wanted ministack; then start_ministack; args+=("ministack@$MINISTACK_VERSION=$DYNAMODB_URL"); fi
if wanted kinesis-local; then start_kinesis_local; args+=("kinesis-local@$(npm_version kinesis-local)=$KINESIS_URL"); streams+=("kinesis-local $KINESIS_URL"); fi
if wanted kinesalite; then start_kinesalite; args+=("kinesalite@$(npm_version kinesalite)=$KINESIS_URL"); fi
if wanted localstack; then start_localstack; args+=("localstack@$LOCALSTACK_VERSION=$KINESIS_URL"); fi
if wanted moto; then start_moto; args+=("moto@$MOTO_VERSION=$DYNAMODB_URL"); fi
go run ./integration/matrix "${flags[@]}" "${args[@]}"

# Random requests: what differs from our emulator and is not explained fails, with the seed. CI always asks the same: what a foreign
# server does in yet another corner is news for whoever runs this by hand, not for whoever wants to land a change.
seed=${CI:+-rapid.seed=1}
for s in "${dynamodb[@]}"; do
  SHARDLEASE_DYNAMODB_KIND=${s% *} SHARDLEASE_DYNAMODB_ENDPOINT=${s#* } go test -count=1 -v -run '_answersAsAForeignServerDoes' ./emulator/internal/dynamodb -rapid.nofailfile $seed | grep -v '^=== '
done
for s in "${streams[@]}"; do
  SHARDLEASE_KINESIS_ENDPOINT=${s#* } go test -count=1 -v -run '_answersAsAForeignServerDoes' ./emulator -rapid.nofailfile -rapid.checks=8 -rapid.steps=15 $seed | grep -v '^=== '
done
if wanted dynalite && wanted kinesis-local; then
  SHARDLEASE_KINESIS_ENDPOINT=${streams[0]#* } SHARDLEASE_DYNAMODB_ENDPOINT=${dynamodb[0]#* } go test -count=1 -v -run TestLatest ./integration | grep -v '^=== '
fi

#!/usr/bin/env bash
# Compiles the worker against both generations of the Java KCL, once for each state of the sources, into a folder that it prints:
# FOLDER/kcl2 and FOLDER/kcl3 have classes/ and a file classpath. Exits with 3 where there is no Maven or no JDK.
set -euo pipefail
cd "$(dirname "$0")"
for tool in mvn javac java; do
  if ! command -v $tool >/dev/null; then
    echo "no $tool here: the Java KCL needs Maven and a JDK, 17 or newer (Debian: apt-get install maven default-jdk-headless)" >&2
    exit 3
  fi
done
state=$(find . -name '*.xml' -o -name '*.java' | sort | xargs cat | sha256sum | cut -c1-16)
out=${XDG_CACHE_HOME:-$HOME/.cache}/shardlease-javakcl/$state
mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two test binaries may want it at once
# The class paths name files of Maven's repository: somebody may have emptied that since.
whole() { [ -e "$out/ready" ] && tr ':' '\n' <"$out/kcl2/classpath" | xargs ls >/dev/null 2>&1 && tr ':' '\n' <"$out/kcl3/classpath" | xargs ls >/dev/null 2>&1; }
if ! whole; then
  began=$SECONDS
  mvn -q -B -Djavakcl.out="$out" compile >&2
  touch "$out/ready"
  echo "compiled against KCL 2.7.2 and 3.5.1 in $((SECONDS - began)) s" >&2
fi
echo "$out"

# Lanes: commands with a name and a time limit, whose results are kept in a table. Source it from the repository's root; .ci/run and
# .ci/full do. lanes_begin FILE comes first, lanes_end last.
#
# A line of the table is: lane, server, tests, seconds, verdict, between tabs. What a lane's command adds to the file by itself, as
# integration/matrix does, stands there too. The latest line of a lane and a server counts.
lanes_only=() # names; none: all
lanes_prefix= # of names in the table
lanes_failed=0

lanes_begin() {
  export LANE_RESULTS=$1
  mkdir -p "$(dirname "$1")"
  lanes_work=$(mktemp -d)
  : >"$lanes_work/lanes"
  : >"$lanes_work/failed"
  trap 'rm -rf "$lanes_work"' EXIT
}

# children_cpu sets cpu to the seconds that processors have spent on what this shell has run so far. In a subshell there would be none yet.
children_cpu() {
  local file=$lanes_work/times-$BASHPID
  times >"$file"
  cpu=$(awk 'NR == 2 {gsub(/[ms]/, " "); printf "%d\n", ($1 + $3) * 60 + $2 + $4}' "$file")
}

# [on=SERVERS] lane NAME SECONDS COMMAND...
lane() {
  local name=$1 limit=$2 began=$SECONDS spent cpu rc took verdict log only wanted=
  shift 2
  echo "$name" >>"$lanes_work/known"
  [ ${#lanes_only[@]} -gt 0 ] || wanted=yes
  for only in "${lanes_only[@]}"; do [ "$only" != "$name" ] || wanted=yes; done
  [ -n "$wanted" ] || return 0
  # Where a run goes on that was broken off, what has succeeded is not run again.
  if [ -n "${LANES_RESUME:-}" ] && awk -F'\t' -v name="$lanes_prefix$name" '$1 == name {verdict = $5} END {exit verdict != "ok"}' "$LANE_RESULTS" 2>/dev/null; then
    printf -- '--- %s was ok before\n' "$name"
    return 0
  fi
  log=$lanes_work/$(tr -c 'a-z0-9\n' - <<<"$name").log
  printf '\n=== %s (limit %ss): %s\n' "$name" "$limit" "$*"
  children_cpu
  spent=$cpu
  timeout --kill-after=10 "$limit" "$@" </dev/null 2>&1 | tee "$log"
  rc=${PIPESTATUS[0]}
  took=$((SECONDS - began))
  case $rc in
    0) verdict=ok; printf -- '--- %s ok, %ss\n' "$name" "$took" ;;
    124|137) verdict="over its limit of ${limit}s"; printf -- '--- %s TIMED OUT, %ss\n' "$name" "$took" ;;
    *) verdict="exit $rc"; printf -- '--- %s FAILED, %ss\n' "$name" "$took" ;;
  esac
  if [ "$rc" != 0 ]; then
    echo "$name: $verdict" >>"$lanes_work/failed"
    lane_complaints "$log" >>"$lanes_work/failed"
  fi
  children_cpu
  printf '%-20s %5ss %5ss of CPU\n' "$name" "$took" $((cpu - spent)) >>"$lanes_work/lanes"
  printf '%s\t%s\t%s\t%s\t%s\n' "$lanes_prefix$name" "${on:--}" "$(lane_tests "$log")" "$took" "$verdict" >>"$LANE_RESULTS"
}

# lane_tests LOG: how many tests it tells of: by a line of its own, one for each test, or one for each package.
lane_tests() {
  awk '/^tests [0-9]+$/ {said = $2} /^schedules [0-9]+ / {said = $2 " schedules"} /^(killed|pass) [0-9]+ of [0-9]+/ {said = $1 " " $2 " of " $4} /^ *--- PASS: / {passed++} /^ok  / {packages++}
    END {if (said) print said; else if (passed) print passed; else if (packages) print packages " packages"; else print "-"}' "$1"
}

# lane_complaints LOG: what of it says most likely why the lane failed, short: the end of a run may be all that somebody sees of it.
lane_complaints() {
  { grep -E -m 3 '^(panic|fatal error|WARNING: DATA RACE)|FAILED| violations [1-9]' "$1"
    grep -E -m 2 -B 2 -A 3 '^ *--- FAIL' "$1" # what a test says stands before it with -v, and after it without
    tail -n 3 "$1"; } | grep -v -E '^(FAIL|--)?$|^=== ' | cut -c 1-160 | sed 's/^ */    /' | awk '!said[$0]++' | head -n 10
}

# lanes_end prints the seconds of the lanes of this run and names those that failed, if any; then it fails.
lanes_end() {
  local only
  printf '\n'
  for only in "${lanes_only[@]}"; do
    grep -qxF -- "$only" "$lanes_work/known" || echo "no lane is named '$only', want one of: $(paste -sd, "$lanes_work/known" | sed 's/,/, /g')" | tee -a "$lanes_work/failed"
  done
  if [ -s "$LANE_RESULTS" ]; then lanes_table "$LANE_RESULTS"; fi
  printf '\n'
  sort -k1.22,1.27 -n -r "$lanes_work/lanes" | sed 's/^/  /'
  if [ -s "$lanes_work/failed" ]; then
    sed 's/^[^ ]/FAILED LANE &/' "$lanes_work/failed"
    return 1
  fi
  printf 'all lanes ok, %ss\n' "$SECONDS"
}

# lanes_table FILE: as markdown.
lanes_table() {
  echo '| suite | server | tests | seconds | |'
  echo '| --- | --- | --- | --- | --- |'
  awk -F'\t' '{k = $1 FS $2; if (!(k in line)) order[++n] = k; line[k] = $0}
    END {for (i = 1; i <= n; i++) {split(line[order[i]], f, FS); printf "| %s | %s | %s | %s | %s |\n", f[1], f[2], f[3], f[4], f[5]}}' "$1"
}

# lanes_document FILE: puts the table into docs/compatibility.md.
lanes_document() {
  local doc=docs/compatibility.md fresh
  grep -q '^<!-- make full -->$' $doc && grep -q '^<!-- end of make full -->$' $doc || { echo "$doc has no place for the table" >&2; return 1; }
  fresh=$(mktemp)
  { sed '/^<!-- make full -->$/q' $doc; echo; lanes_table "$1"; echo; sed -n '/^<!-- end of make full -->$/,$p' $doc; } >"$fresh" && cat "$fresh" >$doc
  rm -f "$fresh"
}

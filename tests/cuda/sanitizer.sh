#!/usr/bin/env bash
# compute-sanitizer over the CUDA EP, on a machine with a GPU: memcheck, racecheck and synccheck, each over the programs
# whose paths are given, and each with a limit of time. Prints one line a check; fails when a check finds something.
#   sanitizer.sh [-t SECONDS] PROGRAM[:GTEST_FILTER]...     programs of GoogleTest
#   sanitizer.sh [-t SECONDS] -- COMMAND [ARGUMENT...]      any other
set -u
limit=120
if [[ ${1:-} == -t ]]; then limit=$2; shift 2; fi
tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
[[ -n $tool ]] || { echo "not run: there is no compute-sanitizer on this machine"; exit 0; }

failed=0
# check NAME COMMAND...
check() {
  local name=$1 log answer theirs ours
  shift
  for kind in ${TENON_SANITIZER_TOOLS:-memcheck racecheck synccheck}; do
    log=${TENON_SANITIZER_LOGS:-/tmp}/sanitizer_${name}_$kind.log
    # No leaks are asked for: the driver's context and the pool live to the end of the process.
    timeout "$limit" "$tool" --tool "$kind" --error-exitcode 9 --print-limit 20 --target-processes all "$@" >"$log" 2>&1
    answer=$?
    # cuBLASLt's Hopper kernels (nvjet) order their copies by barriers that racecheck does not know.
    theirs=$(grep -c 'Race reported.* nvjet_' "$log")
    ours=$(grep 'Race reported' "$log" | grep -vc ' nvjet_')
    ((theirs > 0 && ours == 0)) && ((answer == 9)) && answer=0
    if grep -q "not supported on this\|Device not supported\|Failed to initialize\|Unable to find\|Debugger.*initializ" "$log"; then
      echo "$kind $name: not run: $(grep -m1 "not supported\|Failed to initialize\|Unable to find\|Debugger" "$log")"
    elif ((answer == 124)); then
      echo "$kind $name: not finished within $limit s; errors so far: $(grep -c '========= \(Invalid\|Error:\|Barrier\|Uninit\)' "$log")"
    else
      echo "$kind $name: $(grep 'SUMMARY' "$log" | sed 's/^=* *//' | paste -sd' ' -) (exit $answer; in cuBLASLt: $theirs; $(grep -o '[0-9]* tests\? ran' "$log" | head -1))"
      ((answer == 0)) || failed=1
    fi
  done
}

if [[ ${1:-} == -- ]]; then
  shift
  check "$(basename "$1")" "$@"
else
  for program in "$@"; do
    filter=${program#*:}
    [[ $filter != "$program" ]] || filter=*
    path=${program%%:*}
    check "$(basename "$path")${filter//[^A-Za-z]/}" "$path" "--gtest_filter=$filter"
  done
fi
exit $failed

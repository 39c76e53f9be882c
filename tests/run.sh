#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what is missing, builds, and runs the tests. See usage() below; docs/testing.md says what the tests prove.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'END'
usage: bash tests/run.sh [--quick] [--long] [--sanitize] [--preset NAME] [--minimal] [--help]

Installs the packages that are missing (Debian, as root), builds into build/PRESET and runs CTest. Without options: the release
build, then the whole suite with the address and undefined-behaviour sanitizers, then the collectives with the thread sanitizer:
about 28 minutes on 2 cores.

  --quick         release build only, tests with the label quick: under 3 minutes
  --long          also the tests with the label long (soak, more than 4 GiB, 500 communicators)
  --sanitize      the whole suite under all sanitizers (asan, ubsan, tsan) and no release build; slow
  --preset NAME   one preset only: release, debug, asan, ubsan, tsan
  --minimal       do not install clang-22, clang-tools-22, lld-22, llvm-22, hipcc (AMD GPU code objects) and spin (protocol models); they are
                  used if present
  --help          this text

With CI=true in the environment compiler warnings are errors. The exit status is 0 when no test failed.
END
}

quick="" long="" minimal="" sanitize="" preset=""
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=yes ;;
        --long) long=yes ;;
        --minimal) minimal=yes ;;
        --sanitize) sanitize=yes ;;
        --preset)
            [ $# -gt 1 ] || fail "--preset needs a name"
            preset=$2
            shift
            ;;
        --preset=*) preset=${1#*=} ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; fail "unknown option $1" ;;
    esac
    shift
done
case $preset in
    "" | release | debug | asan | ubsan | tsan) ;;
    *) fail "--preset $preset: known are release, debug, asan, ubsan, tsan" ;;
esac

passed=0 failed=0 not_run=0
stages=()

# run_tests PRESET NAME [ctest options]: run, add up, go on after failures.
run_tests() {
    local preset=$1 name=$2 report rc=0 begin=$SECONDS tests failures skips
    shift 2
    report=$root/build/$preset/report-$name.xml
    rm -f "$report"
    say "testing: $name"
    ctest --test-dir "$root/build/$preset" --parallel $((cores + 1)) --output-on-failure --no-tests=error --output-junit "$report" "$@" || rc=$?
    # The report's first element carries the sums.
    read -r tests failures skips < <(tr '\n\t' '  ' <"$report" 2>/dev/null |
        sed -E 's/.*<testsuite [^>]*tests="([0-9]+)"[^>]*failures="([0-9]+)"[^>]*disabled="([0-9]+)"[^>]*skipped="([0-9]+)".*/\1 \2 \4/') ||
        true
    if ! [[ ${skips:-} =~ ^[0-9]+$ ]]; then
        tests=1 failures=1 skips=0
    elif [ "$rc" -ne 0 ] && [ "$failures" -eq 0 ]; then
        failures=1
    fi
    passed=$((passed + tests - failures - skips))
    failed=$((failed + failures))
    not_run=$((not_run + skips))
    stages+=("$(printf '%-34s %4d passed %4d failed %4d skipped  %4d s' "$name" $((tests - failures - skips)) "$failures" "$skips" \
        $((SECONDS - begin)))")
    collect_skips "$report" "$name"
}

# A test that skips itself prints why in a line that begins with SKIPPED; the rank counts of one test are one line of the summary.
collect_skips() {
    local line
    [ -f "$1" ] || return 0
    while IFS= read -r line; do
        skipped+=("$2: $line")
    done < <(awk '
        /<testcase / { name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name); sub(/\.n[0-9]+$/, "", name); told = 0 }
        /SKIPPED: / && !told {
            sub(/.*SKIPPED: /, ""); sub(/<.*/, ""); gsub(/&lt;/, "<"); gsub(/&gt;/, ">"); gsub(/&quot;/, "\""); gsub(/&amp;/, "\\&")
            if (!seen[name]++) { print name ": " $0 }
            told = 1
        }' "$1")
}

groups=(base)
if [ -z "$minimal" ]; then
    groups+=(amd hipcc spin)
fi
say "checking packages"
install_missing "${groups[@]}"
if [ -n "$minimal" ]; then
    while read -r group what; do
        missing=$(missing_packages "$group" | tr '\n' ' ')
        if [ -n "$missing" ]; then
            skip "$what" "--minimal, not installed: $missing"
        fi
    done <<'END'
amd AMD GPU code objects
hipcc AMD code objects of version 4
spin protocol models
END
fi

werror=OFF
case ${CI:-} in
    "" | 0 | false) ;;
    *) werror=ON ;;
esac
# Labels that no run includes; the models do not depend on how the library is built.
left_out_long="|long" not_long=(-LE '^long$')
if [ -n "$long" ]; then
    left_out_long="" not_long=()
fi

if [ -n "$preset" ]; then
    build_preset "$preset" -DCCL_WERROR=$werror
    run_tests "$preset" "$preset" ${quick:+-L '^quick$'} "${not_long[@]}"
elif [ -n "$sanitize" ]; then
    for preset in asan ubsan tsan; do
        build_preset $preset -DCCL_WERROR=$werror
        run_tests $preset "$preset, whole suite" -LE "^(model${left_out_long})\$"
    done
else
    build_preset release -DCCL_WERROR=$werror
    run_tests release "release${quick:+, quick}" ${quick:+-L '^quick$'} "${not_long[@]}"
    if [ -z "$quick" ]; then
        build_preset asan -DCCL_WERROR=$werror
        # The long forms of the MPI tests, and rank counts that differ from others in nothing a sanitizer sees, are left to --sanitize; what
        # compilers and files are checked for has nothing to do with sanitizers. The GPU bodies once more in AMD's form are the same code in most lines.
        run_tests asan "address+undefined sanitizers" -LE "^(model${left_out_long})\$" -E '^mpi\..*\.full\.|^(check|bench)\.|^unit\.gpu_(.*_amd|bodies)$|\.n(4|5|7|8)$'
        build_preset tsan -DCCL_WERROR=$werror
        # It sees the threads of one process, so a few numbers of processes are enough; and three where a third one changes what threads do.
        other_ranks='\.n(4|5|7|8)$|^mpi\.(api|check|coll_errors|heap|matmul|matmul_errors|matmul_ways|mismatch|example|narrow|trace|split|group|register).*\.n3$'
        long_forms='^mpi\.(allgather|allgather2d|collectives|abort|matmul|mismatch|order|register)\.(full|align)'
        run_tests tsan "thread sanitizer, collectives" -L '^(host|tsan)$' -LE '^(long|model)$' -E "$other_ranks|$long_forms|^mpi\.(init|death|soak|kill_all)"
    fi
fi

echo
say "summary"
printf '%s\n' "${stages[@]}"
print_skipped
echo "$passed passed, $failed failed, $not_run skipped"
[ "$failed" -eq 0 ]

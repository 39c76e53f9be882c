#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Check one model with spin and compare the outcome with what is expected.
#
#   run_model.sh [-d BUILD_DIR] [-e EXPECT] [-t SECONDS] [-v] MODEL [-DNAME[=VALUE]...]
#
#   EXPECT  complete    no error, and every state was visited (the default)
#           bounded     no error in a hashed search (bit states) that may also be cut by SECONDS: not a proof
#           hang        pan must find an invalid end state
#           check:NAME  pan must find that the assertion NAME of the model fails
#   SECONDS limit for the search (default 300; a bounded search that reaches it passes, all others fail)
#   -v      show the last 60 steps of the trail of an expected error
#
# Exit 0: as expected. 1: not, with the end of pan's output, and of the trail if there is one. 2: usage. 77: spin or a
# C compiler is missing. The search may use 4 GB. Files go to a temporary folder under BUILD_DIR (default: $TMPDIR or
# /tmp), removed at the end.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${TMPDIR:-/tmp}
expect=complete
seconds=300
verbose=0
memory_mb=4000

usage() {
    sed -n '5,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

while getopts d:e:t:v opt; do
    case $opt in
        d) build=$OPTARG ;;
        e) expect=$OPTARG ;;
        t) seconds=$OPTARG ;;
        v) verbose=1 ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
model=$here/$1.pml
title="$*"
shift
[ -f "$model" ] || { echo "no model $model" >&2; exit 2; }
case $expect in complete | bounded | hang | check:?*) ;; *) usage ;; esac

command -v spin >/dev/null || { echo "skipped: spin is not installed"; exit 77; }
cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang) || { echo "skipped: no C compiler"; exit 77; }
command -v timeout >/dev/null || { echo "skipped: timeout is not installed"; exit 77; }

mkdir -p "$build" && work=$(mktemp -d "$build/model.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

if ! spin "-P$cc -E -x c" -a "$@" "$model" >spin.out 2>&1 || [ ! -f pan.c ]; then
    cat spin.out
    exit 1
fi
# A seeded run ends early and a low limit means a small model: there compiling costs more than searching.
opt=-O1
[ "$seconds" -le 60 ] && opt=-O0
flags=(-w -DSAFETY -DVECTORSZ=2048 "-DMEMLIM=$((memory_mb - 200))")
depth=4000000
case $expect in
    complete) flags+=($opt -DCOLLAPSE) ;;
    bounded) flags+=(-O2 -DBITSTATE) ;;
    *) flags+=(-O0 -DCOLLAPSE) ;;
esac
"$cc" "${flags[@]}" -o pan pan.c || exit 1

args=("-m$depth")
[ "$expect" = bounded ] && args+=(-w33)
# A model with its own judge of who may still wait says so in its header.
for flag in $(sed -n 's/^ \* pan flags: //p' "$model"); do args+=("$flag"); done
(ulimit -v $((memory_mb * 1024)); exec timeout --signal=INT --kill-after=10 "$seconds" ./pan "${args[@]}") >pan.out 2>&1

errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.out)
states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out)
elapsed=$(sed -n 's/^pan: elapsed time \([0-9.e+-]*\) seconds/\1/p' pan.out)
message=$(sed -n 's/^pan:1: //p' pan.out)
whole=yes
grep -qE 'Search not completed|max search depth too small|reached -DMEMLIM|Interrupted' pan.out && whole=no

verdict=unexpected
case $expect in
    complete) [ "${errors:-x}" = 0 ] && [ $whole = yes ] && verdict="no error, search complete" ;;
    bounded)
        if [ "${errors:-x}" = 0 ] && [ $whole = yes ]; then
            verdict="no error, bounded: hashed search, not a proof"
        elif [ "${errors:-x}" = 0 ]; then
            verdict="no error so far, bounded: hashed search, cut short"
        fi ;;
    hang) [ "${errors:-x}" = 1 ] && [[ $message == invalid\ end\ state* ]] && verdict="found as expected: $message" ;;
    check:*) [ "${errors:-x}" = 1 ] && [[ $message =~ ^assertion\ violated.*[^a-z_]${expect#check:}[^a-z_] ]] &&
        verdict="found as expected: $message" ;;
esac

echo "$title: $verdict; errors: ${errors:-none reported}, ${states:-?} states, ${elapsed:-?} s"
trail=$(ls ./*.trail 2>/dev/null | head -n 1)
show_trail() {
    spin "-P$cc -E -x c" -t -p "$@" -k "$trail" "$model" 2>&1 | sed '/^spin: trail ends/q' | tail -n 60
}
if [ "$verdict" = unexpected ]; then
    echo "expected $expect, got: ${message:-no error}; search complete: $whole"
    tail -n 40 pan.out
    [ -n "$trail" ] && show_trail "$@"
    exit 1
fi
if [ $verbose = 1 ] && [ -n "$trail" ]; then
    show_trail "$@"
fi
exit 0

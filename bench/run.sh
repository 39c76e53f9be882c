#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what is missing, builds, and measures the all-gather against MPI_Allgather: table, JSON and plot. See usage() below.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../tests/lib.sh"

usage() {
    cat <<'END'
usage: bash bench/run.sh [--quick] [--ranks N] [--minimal] [--help] [-- OPTIONS OF ccl_bench]

Installs the packages that are missing (Debian, as root), builds build/release, runs the all-gather sweep over 8 B to 64 MiB per rank with
validation and MPI_Allgather as the baseline, prints a table, and writes results/all_gather.json (one object a line) and
results/all_gather.png.

  --quick      fewer sizes and iterations: under a minute
  --ranks N    number of ranks (default 4)
  --minimal    do not install clang-22, clang-tools-22, lld-22, llvm-22 and spin, which the measurement on the host backend does not need
  --help       this text
  --           everything after it goes to `ccl_bench all_gather` and wins over the options set here; `-- --help` lists them
END
}

quick="" minimal="" ranks=4
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=yes ;;
        --minimal) minimal=yes ;;
        --ranks)
            [ $# -gt 1 ] || fail "--ranks needs a number"
            ranks=$2
            shift
            ;;
        --ranks=*) ranks=${1#*=} ;;
        --help | -h) usage; exit 0 ;;
        --) shift; break ;;
        *) usage >&2; fail "unknown option $1 (options of ccl_bench go after --)" ;;
    esac
    shift
done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || fail "--ranks $ranks: not a positive number"

say "checking packages"
if [ -n "$minimal" ]; then
    install_missing base
else
    install_missing base amd spin
fi
have mpirun || { print_skipped; fail "the benchmark starts its ranks with mpirun, which is missing"; }

build_preset release
bench=$root/build/release/bench/ccl_bench
[ -x "$bench" ] || fail "build/release/bench/ccl_bench was not built"

out=$root/results/all_gather.json
mkdir -p "$root/results"
options=(--bytes 8:64M:x2 --mode eager,batch --baseline mpi)
if [ -n "$quick" ]; then
    options=(--bytes 8:4M:x8 --mode eager,batch --baseline mpi --warmup 5 --iters 20)
fi

# Plain Open MPI on one node, also as root, with nothing but the loopback device, and with more ranks than cores. These are the
# variables' names of Open MPI; other MPIs ignore them.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_plm_rsh_agent=

say "backend: ${CCL_BACKEND:-auto}, $ranks ranks on $cores cores"
rc=0
mpirun -np "$ranks" "$bench" all_gather "${options[@]}" --format json --out "$out" "$@" || rc=$?
[ "$rc" -eq 0 ] || fail "ccl_bench ended with $rc"
case " $* " in *" --help "*) exit 0 ;; esac

echo
backend=$(sed -nE 's/.*"backend": *"([^"]*)".*/\1/p' "$out" | sort -u | tr '\n' ' ')
if [ "${backend% }" = host ]; then
    say "measured on the host backend (CPU processes, shared memory): no GPU backend is available here"
else
    say "measured on: $backend"
fi
if python=$(plot_python); then
    say "plotting"
    "$python" "$root/bench/plot.py" "$out" --out "${out%.json}.png"
    echo "plot:  results/all_gather.png"
else
    skip "the plot" "no python3 with matplotlib"
fi
echo "data:  results/all_gather.json"
print_skipped

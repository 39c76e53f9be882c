# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Sourced by bench/gpu.sh and tests/gpu.sh: finds the NVIDIA tools, builds with the code objects of the local nvcc, keeps an MPS daemon of its
# own, and starts ranks on this machine. Expects root (the source tree).

: "${root:?the script that sources this sets it}"
# shellcheck source=bench/plot_python.sh
. "$root/bench/plot_python.sh"

die() {
    echo "${0##*/}: $*" >&2
    exit 2
}

# Tools that are often outside of PATH.
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin

gpu_require() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || die "$tool is missing"
    done
}

# gpu_build BUILD TARGET... [-DNAME=VALUE...]: Release, NVIDIA code objects only.
gpu_build() {
    local build=$1 generator=() word targets=() settings=()
    shift
    for word in "$@"; do
        case $word in
        -D*) settings+=("$word") ;;
        *) targets+=("$word") ;;
        esac
    done
    mkdir -p "$build"
    if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DCCL_TEST_BACKEND=gpu \
        -DCCL_HIP_CLANG="$(command -v false)" "${settings[@]}" >"$build/configure.log" 2>&1 || {
        tail -n 20 "$build/configure.log" >&2
        die "cmake failed"
    }
    grep -E 'GPU code objects, NVIDIA|MPI not found' "$build/configure.log" | sed 's/^-- //' || true
    cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >"$build/build.log" 2>&1 || {
        grep -E -A5 'error|FAILED' "$build/build.log" | head -n 30 >&2 || true
        die "the build failed ($build/build.log)"
    }
}

mps_folder=""

mps_start() {
    mps_folder=$(mktemp -d -t mps.XXXXXX)
    export CUDA_MPS_PIPE_DIRECTORY=$mps_folder/pipe CUDA_MPS_LOG_DIRECTORY=$mps_folder/log
    mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    # A daemon that kept this shell's output open would keep a caller's pipe open.
    nvidia-cuda-mps-control -d </dev/null >"$mps_folder/start" 2>&1 || {
        cat "$mps_folder/start" >&2
        die "the MPS daemon does not start"
    }
}

# Ranks that died may keep the daemon from ending; then it is killed by the number it left.
mps_stop() {
    local pid
    [ -n "$mps_folder" ] || return 0
    pid=$(cat "$mps_folder/pipe/nvidia-cuda-mps-control.pid" 2>/dev/null || true)
    echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1 || { [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true; }
    rm -rf "$mps_folder"
    mps_folder=""
}

# Programs started from here on use no daemon, not even one of somebody else.
mps_none() {
    mps_stop
    no_mps=${no_mps:-$(mktemp -d -t mps.XXXXXX)}
    export CUDA_MPS_PIPE_DIRECTORY=$no_mps CUDA_MPS_LOG_DIRECTORY=$no_mps
}

mps_cleanup() {
    mps_stop
    [ -z "${no_mps:-}" ] || rm -rf "$no_mps"
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_plm_rsh_agent=

# gpu_ranks SECONDS RANKS COMMAND...
gpu_ranks() {
    local seconds=$1 ranks=$2
    shift 2
    timeout --kill-after=10 "$seconds" mpirun --bind-to none -n "$ranks" "$@"
}

# gpu_measure SECONDS RANKS COMMAND...: a run of ccl_bench on "$device". Its rows are added to $out/$part.nRANKS.json, what it prints to $out/$part.log. Status 1
# is wrong data or refused configurations, which the summary judges; any other sets failed.
gpu_measure() {
    local seconds=$1 ranks=$2 status=0 rows=$out/$part.n$2.json log=$out/$part.log
    shift 2
    echo "== $ranks ranks: $*" >>"$log"
    rm -f "$out/run.json"
    gpu_ranks "$seconds" "$ranks" "$@" --device "$device" --format json --out "$out/run.json" >>"$log" 2>&1 || status=$?
    [ ! -s "$out/run.json" ] || cat "$out/run.json" >>"$rows"
    rm -f "$out/run.json"
    if [ "$status" -gt 1 ]; then
        failed=1
        echo "  $part, $ranks ranks: status $status: $(grep '^ccl_bench:' "$log" | tail -n 1 | cut -c 1-200)"
    fi
}

# gpu_plot PNG ARGUMENTS of plot.py: into $out.
gpu_plot() {
    local python png=$1
    shift
    if python=$(plot_python); then
        "$python" "$root/bench/plot.py" "$@" --out "$out/$png" || true
    else
        echo "no $png: python3 has no matplotlib"
    fi
}

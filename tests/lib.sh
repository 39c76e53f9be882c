# SPDX-License-Identifier: MIT
#
# Shared by tests/run.sh and bench/run.sh (sourced, bash): installs what is missing, configures and builds a preset, keeps the list of
# what was skipped and why.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/plot_python.sh
. "$root/bench/plot_python.sh"
cores=$(nproc 2>/dev/null || echo 1)
skipped=()
start_s=$SECONDS

say() {
    printf '== [%3d s] %s\n' $((SECONDS - start_s)) "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# skip WHAT WHY: remembered for the summary at the end.
skip() {
    skipped+=("$1: $2")
    say "skipping $1: $2"
}

print_skipped() {
    if [ ${#skipped[@]} -eq 0 ]; then
        echo "skipped: nothing"
    fi
    for line in ${skipped[@]+"${skipped[@]}"}; do
        echo "skipped: $line"
    done
}

have() {
    command -v "$1" >/dev/null 2>&1
}

has_c_library() {
    echo 'int main(void) { return 0; }' | "${CC:-cc}" -x c -o /dev/null - 2>/dev/null
}

has_mpi_headers() {
    have mpicc
}

is_installed() {
    dpkg -s "$1" 2>/dev/null | grep '^Status: .* installed$' >/dev/null # not -q, which ends early and fails the writer
}

# What is needed: package | group | test that makes the package unnecessary | what is left out without it ("" = nothing works).
# The groups are installed one after the other, so that a package an archive does not have takes no other with it.
needs() {
    cat <<'END'
gcc|base|have cc|
libc6-dev|base|has_c_library|
cmake|base|have cmake|
ninja-build|base|have ninja|a faster build (make is used instead)
make|base|have ninja|
openmpi-bin|base|have mpirun|all tests and benchmarks with several processes
libopenmpi-dev|base|has_mpi_headers|all tests and benchmarks with several processes
python3|base|have python3|the checks of includes, exports and docs/env.md, and the plots
python3-matplotlib|base|plot_python|the plots
clang-22|amd|have clang-22|AMD GPU code objects in the library
lld-22|amd|have ld.lld-22|AMD GPU code objects in the library
llvm-22|amd|have llvm-readelf-22|checks of the AMD machine code
clang-tools-22|amd|have clang-offload-bundler-22|bundles of AMD code objects (they are embedded one by one)
hipcc|hipcc|have hipcc|AMD code objects of version 4
spin|spin|have spin|the protocol models
END
}

# missing_packages GROUP: those that are neither installed nor made unnecessary.
missing_packages() {
    local package group test _
    while IFS='|' read -r package group test _; do
        if [ "$group" = "$1" ] && ! is_installed "$package" && ! $test >/dev/null 2>&1; then
            echo "$package"
        fi
    done < <(needs)
}

# Short progress out of apt's output; everything is in the log.
apt_progress() {
    tee -a "$apt_log" | awk '
        /^Need to get|^Err:|^E:/ { print "     " $0; fflush() }
        /^Get:/ && ++got % 20 == 0 { print "     fetched " got; fflush() }
        /^Setting up / && ++set % 50 == 0 { print "     set up " set; fflush() }'
}

apt_install() {
    if [ -z "${apt_updated:-}" ]; then
        say "apt-get update"
        apt-get -q -o Acquire::Retries=1 update 2>&1 | apt_progress
        apt_updated=yes
    fi
    : >"$apt_log"
    say "apt-get install $*"
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=2 install --no-install-recommends "$@" </dev/null 2>&1 | apt_progress
    [ "${PIPESTATUS[0]}" -eq 0 ]
}

# report_missing WHY PACKAGES: name what the packages' absence leaves out. Fails where nothing can be built.
report_missing() {
    local why=$1 package without fatal=""
    shift
    while IFS='|' read -r package _ _ without; do
        case " $* " in
            *" $package "*) ;;
            *) continue ;;
        esac
        if [ -z "$without" ]; then
            fatal="$fatal $package"
        elif [ "$package" != make ]; then
            skip "$without" "package $package is missing ($why)"
        fi
    done < <(needs)
    if ! have ninja && ! have make; then
        fatal="$fatal ninja-build"
    fi
    if [ -n "$fatal" ]; then
        print_skipped
        fail "cannot build without:$fatal ($why)"
    fi
}

# install_missing GROUP...: install what is missing, one group after the other.
install_missing() {
    local group why
    local -a missing
    apt_log=$(mktemp)
    for group in "$@"; do
        mapfile -t missing < <(missing_packages "$group")
        if [ ${#missing[@]} -eq 0 ]; then
            continue
        fi
        if ! have apt-get; then
            why="there is no apt-get to install it with"
        elif [ "$(id -u)" -ne 0 ]; then
            why="not root; as root: apt-get install ${missing[*]}"
        elif apt_install "${missing[@]}"; then
            continue
        else
            why="apt-get: $(grep -m 1 -E '^E:' "$apt_log" | sed -E 's#^E: ##; s#https?://[^ ]*/##' | cut -c 1-160)"
        fi
        mapfile -t missing < <(missing_packages "$group")
        report_missing "$why" "${missing[@]}"
    done
    rm -f "$apt_log"
}

# The generator of an existing build folder stays; a new one takes Ninja where it is installed.
choose_generator() {
    local cache=$root/build/$1/CMakeCache.txt
    unset CMAKE_GENERATOR
    if [ -f "$cache" ]; then
        CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$cache")
    elif have ninja; then
        CMAKE_GENERATOR=Ninja
    else
        CMAKE_GENERATOR="Unix Makefiles"
    fi
    export CMAKE_GENERATOR
}

# build_preset NAME [cmake options]: configure and build into build/NAME.
build_preset() {
    local preset=$1 log
    shift
    choose_generator "$preset"
    log=$root/build/$preset-configure.log
    mkdir -p "$root/build"
    say "configuring preset $preset"
    (cd "$root" && cmake --preset "$preset" "$@") >"$log" 2>&1 || { cat "$log"; fail "configuring preset $preset"; }
    grep -E '^-- (GPU code objects|MPI not found|python3 not found|spin not found)|Warning' "$log" | sed 's/^-- /     /' || true
    say "building preset $preset"
    (cd "$root" && cmake --build --preset "$preset" --parallel "$cores") || fail "building preset $preset"
}

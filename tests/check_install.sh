#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Proves that an installed libccl can be found by pkg-config and by find_package, from a folder that nobody configured.
# Usage: check_install.sh CMAKE BUILD_DIR CC SANITIZERS
set -eu
cmake=$1
build=$2
cc=$3
sanitizers=${4:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$cmake" --install "$build" --prefix "$dir/prefix" >"$dir/install.log"
lib=$(find "$dir/prefix" -name libccl.so)
[ -n "$lib" ] || { echo "no libccl.so was installed"; exit 1; }
libdir=$(dirname "$lib")
[ -e "$libdir/libccl.so.0" ] || { echo "no libccl.so.0 beside $lib"; exit 1; }
[ -f "$dir/prefix/include/ccl/ccl.h" ] || { echo "no ccl/ccl.h was installed"; exit 1; }

for soname in libnccl.so.2 librccl.so.1; do
    [ -e "$libdir/ccl-compat/$soname" ] && [ -e "$libdir/ccl-compat/${soname%.*}" ] || { echo "no $soname in ccl-compat"; exit 1; }
    [ ! -e "$libdir/$soname" ] && [ ! -e "$libdir/${soname%.*}" ] || { echo "$soname would shadow another one in $libdir"; exit 1; }
done
cat >"$dir/nccl.c" <<'END'
#include <nccl.h>
int main(void)
{
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess && version / 100 == 228 ? 0 : 1;
}
END
cat >"$dir/main.c" <<'END'
#include <ccl/ccl.h>
#include <stdio.h>
int main(void)
{
    int version = 0;
    if (cclGetVersion(&version) != cclSuccess || version != CCL_VERSION) {
        printf("version %d, the header says %d\n", version, CCL_VERSION);
        return 1;
    }
    return 0;
}
END
cat >"$dir/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(ccl 0.1 REQUIRED)
add_executable(main main.c)
target_link_libraries(main PRIVATE ccl::ccl)
END
flags=${sanitizers:+-fsanitize=$sanitizers}

"$cmake" -S "$dir" -B "$dir/build" -DCMAKE_PREFIX_PATH="$dir/prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" \
    >"$dir/log" 2>&1 && "$cmake" --build "$dir/build" >>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"$dir/build/main"
echo "find_package: works"

# shellcheck disable=SC2086
"$cc" $flags -I"$dir/prefix/include/ccl-compat" -o "$dir/nccl" "$dir/nccl.c" -L"$libdir/ccl-compat" -lnccl
LD_LIBRARY_PATH=$libdir/ccl-compat "$dir/nccl"
echo "nccl.h and libnccl.so: work"

if ! command -v pkg-config >/dev/null 2>&1; then
    echo "pkg-config: not installed, not tried"
    exit 0
fi
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046,SC2086
"$cc" $flags -o "$dir/main" "$dir/main.c" $(pkg-config --cflags --libs libccl)
LD_LIBRARY_PATH=$libdir "$dir/main"
echo "pkg-config: works"

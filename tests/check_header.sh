#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Proves that the public header is C99 and C++ without a warning, each time as the only include of a file.
# Usage: check_header.sh INCLUDE_DIR CC
set -eu
include=$1
cc=$2
warnings="-Wall -Wextra -pedantic-errors -Werror"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/use.c" <<'END'
#include "ccl/ccl.h"
int use(void);
int use(void)
{
    cclCallConfig_t call = CCL_CALL_CONFIG_INITIALIZER;
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    int version = 0;
    return (int)cclGetVersion(&version) + call.tile_m + config.max_blocks;
}
END
cp "$dir/use.c" "$dir/use.cc"

for std in c99 c11; do
    # shellcheck disable=SC2086
    "$cc" -std=$std $warnings -Wstrict-prototypes -I"$include" -fsyntax-only "$dir/use.c"
    echo "$std: clean"
done
for cxx in "${CXX:-}" c++ g++ clang++ clang++-22; do
    if [ -n "$cxx" ] && command -v "$cxx" >/dev/null 2>&1; then
        for std in c++11 c++17; do
            # shellcheck disable=SC2086
            "$cxx" -std=$std $warnings -I"$include" -fsyntax-only "$dir/use.cc"
            echo "$std: clean ($cxx)"
        done
        exit 0
    fi
done
echo "SKIPPED: C99 is clean, no C++ compiler to try the header with"
exit 77

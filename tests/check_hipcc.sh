#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Proves that a hipcc as old as ROCm 5 compiles all kernels for gfx90a to code objects of version 4 with the build's own options, that every kernel of
# kernel_list.h is in them, and that none but parts has scratch memory, and none spills vector registers. (clang 15 keeps a scalar of some in a lane of a vector
# register, which costs no memory, and the vectors of parts in scratch memory, which is slow and right.) The objects stay in FOLDER, for the interpreter.
#
# usage: check_hipcc.sh HIPCC READELF CC SOURCE FOLDER OPTION...
set -eu
hipcc=$1
readelf=$2
cc=$3
source=$4
folder=$5
shift 5
failed=0

complain() {
    echo "FAILED: $*" >&2
    failed=1
}

rm -rf "$folder"
mkdir -p "$folder"
lists="CCL_KERNEL_LIST(CCL_K)"
for file in "$source"/kernels/*.hip; do
    stem=$(basename "$file" .hip)
    # The build leaves a file out for a compiler without the builtin that it names.
    builtin=$(sed -n 's/^.*NEEDS \(__builtin_[a-z0-9_]*\).*$/\1/p' "$file")
    if [ -n "$builtin" ]; then
        printf '#if !__has_builtin(%s)\n#error\n#endif\n' "$builtin" >"$folder/probe.hip"
        if ! "$hipcc" "$@" --offload-arch=gfx90a -o "$folder/probe.co" "$folder/probe.hip" >"$folder/log" 2>&1; then
            echo "$stem.hip left out: no $builtin"
            continue
        fi
        lists="$lists CCL_MATRIX_KERNEL_LIST(CCL_K)"
    fi
    object=$folder/${stem}_gfx90a.co
    # hipcc asks another program for the GPUs of this machine and shows how it fails where there are none.
    if ! "$hipcc" "$@" --offload-arch=gfx90a -o "$object" "$file" >"$folder/log" 2>&1; then
        cat "$folder/log" >&2
        complain "$hipcc does not compile $stem.hip"
        continue
    fi
    "$readelf" -h "$object" | grep 'ABI Version: *2$' >/dev/null || complain "$stem: not ABI version 2, which is code object version 4"
    "$readelf" -h "$object" | grep -i '0x53f' >/dev/null || complain "$stem: not for gfx90a with any setting of xnack and sramecc"
    "$readelf" --notes "$object" >>"$folder/notes"
done
rm -f "$folder/log" "$folder"/probe.*
[ "$failed" -eq 0 ] || exit 1

printf '#include "kernel_list.h"\n#define CCL_K(name, args) kernel ccl_k_##name\n%s\n' "$lists" |
    "$cc" -E -P -I"$source/kernels" -I"$source/include" -x c - | tr -s ' ' '\n' | grep '^ccl_k_' | sort >"$folder/want"
sed -n 's/^ *\.name: *\(ccl_k_[^.]*\)$/\1/p' "$folder/notes" | sort >"$folder/got"
cmp "$folder/want" "$folder/got" || complain "kernels: $(diff "$folder/want" "$folder/got" | grep '^[<>]' | tr '\n' ' ')"
kernels=$(wc -l <"$folder/got")
for key in private_segment_fixed_size vgpr_spill_count; do
    [ "$(grep -c "\\.$key: " "$folder/notes" || true)" -eq "$kernels" ] || complain "$key is not told for each of $kernels kernels"
    other=$(awk -v key=".$key:" '$1 == ".name:" && /ccl_k_/ { name = $2 } $1 == key && $2 != 0 { print name }' "$folder/notes" | tr '\n' ' ')
    case $key/$other in
        */ | "private_segment_fixed_size/ccl_k_parts ") ;;
        *) complain "$key is not 0 for $other" ;;
    esac
done
grep -q hidden_block_count "$folder/notes" && complain "implicit arguments of version 5"
echo "$kernels kernels, at most $(sed -n 's/^ *\.vgpr_count: *//p' "$folder/notes" | sort -n | tail -n 1) registers"
rm -f "$folder/notes" "$folder/want" "$folder/got"
exit $failed

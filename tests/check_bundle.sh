#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Proves that clang-offload-bundler, which knows nothing of this project, lists in each bundle exactly the host and the architectures that were built, and
# unbundles for each of them the very bytes of its own code object; and that this script would notice another bundle.
#
# usage: check_bundle.sh BUNDLER FOLDER ARCH...
set -eu
bundler=$1
folder=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
    echo "FAILED: $*" >&2
    failed=1
}

# check BUNDLE STEM ARCH...: complaints into $work/text.
check() {
    bundle=$1
    stem=$2
    shift 2
    : >"$work/text"
    {
        echo host-x86_64-unknown-linux-gnu
        for arch in "$@"; do
            echo "hipv4-amdgcn-amd-amdhsa--$arch"
        done
    } | sort >"$work/want"
    # Older bundlers write an empty environment out with a dash at the end of the host's triple.
    "$bundler" --list --type=o --input="$bundle" 2>&1 | sed 's/-*$//' | sort >"$work/got"
    cmp -s "$work/want" "$work/got" || echo "it lists $(tr '\n' ' ' <"$work/got"), not $(tr '\n' ' ' <"$work/want")" >>"$work/text"
    for arch in "$@"; do
        rm -f "$work/part"
        "$bundler" --unbundle --type=o --targets="hipv4-amdgcn-amd-amdhsa--$arch" --input="$bundle" --output="$work/part" >"$work/said" 2>&1 || true
        cmp -s "$work/part" "$folder/${stem}_$arch.co" || echo "what it holds for $arch differs from ${stem}_$arch.co $(head -n 1 "$work/said")" >>"$work/text"
    done
}

bundles=0
for bundle in "$folder"/*.hipfb; do
    stem=$(basename "$bundle" .hipfb)
    archs=""
    for arch in "$@"; do
        if [ -f "$folder/${stem}_$arch.co" ]; then
            archs="$archs $arch"
        fi
    done
    # shellcheck disable=SC2086
    check "$bundle" "$stem" $archs
    if [ -s "$work/text" ]; then
        complain "$bundle: $(cat "$work/text")"
    fi
    bundles=$((bundles + 1))
done
if [ "$bundles" -eq 0 ]; then
    complain "no bundle in $folder"
    exit 1
fi

# One byte of a code object, an architecture that is not there, a cut-off file.
cp "$bundle" "$work/bad"
printf X | dd of="$work/bad" bs=1 seek=6000 conv=notrunc 2>/dev/null
# shellcheck disable=SC2086
check "$work/bad" "$stem" $archs
[ -s "$work/text" ] || complain "a changed byte was not noticed"
# shellcheck disable=SC2086
check "$bundle" "$stem" $archs gfx803
[ -s "$work/text" ] || complain "a missing architecture was not noticed"
head -c 6000 "$bundle" >"$work/bad"
# shellcheck disable=SC2086
check "$work/bad" "$stem" $archs
[ -s "$work/text" ] || complain "a cut-off bundle was not noticed"
echo "$bundles bundles, architectures:$archs"
exit $failed

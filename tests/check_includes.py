#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves the rules of the tree that a grep can see: who may include whom (RULES), where GPU, socket and MPI headers may appear, that
only src/util/config.c reads the environment, that no file is longer than 800 lines, and that every file names its licence.

Usage: check_includes.py ROOT
"""
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

MAX_LINES = 800
PUBLIC = ["include/ccl/ccl.h"]
DEVICE = ["include/ccl/device.h"]
UTIL = PUBLIC + ["src/util/*"]
KERNEL_ARGS = ["kernels/args.h", "kernels/kernel_list.h"]
MATMUL_ARGS = ["kernels/matmul_args.h", "kernels/matrix_cores.h", "kernels/matmul_map.h", "kernels/gemm.h"]

# (files, what they may include of this tree, kinds of foreign headers beyond the C library). The first match counts. A file may
# always include headers of its own folder, unless ALONE is in the list.
ALONE = "alone"
RULES = [
    ("include/ccl/ccl.h", [ALONE, "include/ccl/device_types.h"], []),
    ("include/ccl/device_types.h", [ALONE], []),
    ("include/ccl/device*.h", [ALONE, "include/ccl/device*.h"], []),
    ("include/compat/*", ["include/compat/*"], []),
    ("src/api.[ch]", UTIL + ["src/api.h", "src/comm/*"], []),
    ("src/api_ops.c", UTIL + ["src/api.h", "src/comm/*", "src/coll/*", "src/fused/*", "src/heap/*", "src/trace/*"], []),
    ("src/api_coll.c", UTIL + ["src/api.h", "src/comm/*", "src/coll/*"], []),
    # Streams, events and memory of every backend: calls that end in the runtime.
    ("src/api_helpers.c", UTIL + ["src/comm/*", "src/runtime/runtime.h"], []),
    ("src/comm/*", UTIL + ["src/bootstrap/*", "src/heap/*", "src/runtime/runtime.h", "src/trace/*"] + KERNEL_ARGS, []),
    ("src/coll/*", UTIL + ["src/comm/comm.h", "src/comm/group.h", "src/heap/heap.h", "src/runtime/runtime.h", "src/trace/trace.h"] + KERNEL_ARGS, []),
    ("src/api_matmul.c", UTIL + ["src/api.h", "src/comm/*", "src/fused/*"], []),
    ("src/fused/*", UTIL + ["src/comm/comm.h", "src/comm/group.h", "src/coll/*.h", "src/heap/heap.h", "src/runtime/runtime.h", "src/trace/trace.h"]
     + KERNEL_ARGS + MATMUL_ARGS, []),
    ("src/heap/alloc.[ch]", UTIL + [ALONE, "src/heap/alloc.h"], []),
    # args.h: the heap fills the table of window bases that kernels read.
    ("src/heap/*", UTIL + ["src/runtime/runtime.h", "src/bootstrap/bootstrap.h", "src/bootstrap/monitor.h", "kernels/args.h"], []),
    ("src/runtime/*host*", UTIL + ["kernels/kernel_list.h", "kernels/matrix_cores.h", "kernels/host.h"], []),
    ("src/runtime/*gpu*", UTIL + ["kernels/kernel_list.h", "kernels/matrix_cores.h"], ["gpu"]),
    ("src/runtime/*", UTIL + ["kernels/kernel_list.h", "kernels/matrix_cores.h"], []),
    ("src/bootstrap/*", UTIL, ["socket"]),
    ("src/trace/*", UTIL + ["kernels/args.h"], []), # the layout of the records
    ("src/util/*", UTIL, []),
    ("src/compat/*", UTIL + ["src/comm/bridge.h", "include/compat/*"], []),
    ("tests/compat/*", ["include/*", "src/compat/*", "src/util/*", "tests/test.h"], ["mpi"]),
    ("kernels/*", ["include/ccl/device.h"], []),
    ("tests/unit/test_gpu_headers*", ["include/*", "src/*", "kernels/*", "tests/test.h"], ["gpu"]),
    ("tests/fake_gpu/*", ["include/*", "src/*", "kernels/*", "tests/test.h", "tests/bundle.h"], []),
    ("tests/unit/*", ["include/*", "src/*", "kernels/*", "tests/test.h", "tests/bundle.h"], ["socket"]),
    ("tests/fuzz/*", ["include/*", "src/*", "kernels/*", "tests/test.h"], ["socket"]),
    # The runtime of libccl_emu.so is the fake one with other kernels.
    ("tests/isa/*", ["kernels/*"] + DEVICE, []), # kernels that the gates must refuse
    ("tests/emu/hip_*", UTIL + ["tests/fake_gpu/fake.h"], []),
    ("tests/emu/schedule*", PUBLIC, []),
    ("tests/emu/*", UTIL + ["src/runtime/runtime.h", "src/runtime/code_objects.h", "kernels/*", "tests/test.h", "tests/bundle.h"], []),
    ("tests/mpi/*", PUBLIC + DEVICE + ["tests/test.h"], ["mpi", "socket"]),
    ("tests/*", PUBLIC + ["tests/test.h"], ["mpi"]),
    ("bench/nccl.c", PUBLIC + ["include/compat/*"], ["mpi"]),
    ("bench/*", PUBLIC, ["mpi"]),
    ("docs/examples/*", PUBLIC + DEVICE, ["mpi", "gpu"]),
]
FOREIGN = {
    "gpu": r"(hip|hsa|rocm|cuda)[/_.]|cuda\w*\.h|cu\w+_api\.h",
    "socket": r"sys/(socket|un)\.h|netinet/|arpa/|netdb\.h|ifaddrs\.h|net/if\.h",
    "mpi": r"mpi\.h",
}
GENERATED = {"commit.h"}  # made by the build
SOURCE_SUFFIXES = {".c", ".h", ".hip", ".def"}
CODE_SUFFIXES = SOURCE_SUFFIXES | {".py", ".sh", ".cmake", ".pml", ".map"}
FOLDERS = ["include", "src", "kernels", "tests", "bench", "docs", "cmake"]
SEARCH = ["include", "include/compat", "src", "kernels", "tests", "."]


def resolve(root, file, name):
    """Path of an included header inside the tree, or None."""
    for folder in [file.parent] + [root / s for s in SEARCH]:
        path = (folder / name).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return None


def check_include(root, file, name, quoted, rule):
    """Complaint about one include line, or None."""
    _, allowed, foreign = rule
    target = resolve(root, file, name)
    if name in GENERATED:
        return None
    if target is None and quoted:
        return f'"{name}" is not in the tree'
    if target is None:
        kinds = [kind for kind, pattern in FOREIGN.items() if re.match(pattern, name) and kind not in foreign]
        return f"<{name}> is a {kinds[0]} header" if kinds else None
    if ALONE not in allowed and Path(target).parent == file.relative_to(root).parent:
        return None
    if any(fnmatch(target, pattern) for pattern in allowed):
        return None
    return f"may not include {target}"


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def check_file(root, file):
    name = file.relative_to(root).as_posix()
    text = file.read_text()
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield f"{name}: {lines} lines, {MAX_LINES} is the limit"
    if "SPDX-License-Identifier: MIT" not in "\n".join(text.splitlines()[:3]):
        yield f"{name}: no SPDX-License-Identifier in the first three lines"
    if file.suffix not in SOURCE_SUFFIXES:
        return
    rule = next((r for r in RULES if fnmatch(name, r[0])), None)
    if rule is None:
        yield f"{name}: no rule in tests/check_includes.py for this place"
        return
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if m:
            complaint = check_include(root, file, m.group(2), m.group(1) == '"', rule)
            if complaint:
                yield f"{name}:{number}: {complaint}"
        if name.startswith(("src/", "kernels/", "include/")) and name != "src/util/config.c" and re.search(r"\bgetenv\b", line):
            yield f"{name}:{number}: getenv outside src/util/config.c"


def main():
    root = Path(sys.argv[1]).resolve()
    files = [f for d in FOLDERS for f in sorted((root / d).rglob("*")) if f.suffix in CODE_SUFFIXES]
    complaints = [c for f in files for c in check_file(root, f)]
    print("\n".join(complaints))
    print(f"{len(files)} files, {len(complaints)} complaints")
    return int(bool(complaints) or not files)


if __name__ == "__main__":
    sys.exit(main())

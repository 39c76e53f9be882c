# SPDX-License-Identifier: MIT
#
# CTest isa.<arch>: the gates (gates.py) on the code objects of one architecture, then that they reject what they must: every kernel of bad.hip, and
# loops with bases looked up inside (inside.py). The tables are printed, and compared with those in docs/kernels.md when the compiler is the one named there; --write
# renews them.
import argparse
import os
import re
import subprocess
import sys
import tempfile

import code_object
import gates
import inside
import matrix

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLAGS = ('-x', 'hip', '--cuda-device-only', '--no-gpu-bundle-output', '-O3', '-nogpulib', '-nogpuinc', '-mcode-object-version=5', '-std=c++17',
         f'-I{ROOT}/include', f'-I{ROOT}/kernels')


def compile_kernels(clang, arch, source, out, *more):
    subprocess.run([clang, *FLAGS, *more, f'--offload-arch={arch}', '-o', out, source], check=True)
    return code_object.read_code_object(out)


def check_rejections(clang, arch, folder):
    """Every kernel of bad.hip gets the complaint it is there for."""
    source = os.path.join(HERE, 'bad.hip')
    budgets, failed, tried = gates.read_budgets([source]), 0, 0
    kernels = compile_kernels(clang, arch.name, source, os.path.join(folder, 'bad.co'), '-Wno-everything')
    for kernel in kernels.values():
        budget = gates.budget_of(budgets, kernel, arch)
        want = budget['expect'] if budget else 'no budget'
        if budget and 'cdna' in budget and not arch.cdna:
            continue
        tried += 1
        said = gates.check_kernel(kernel, arch, budget)
        if not any(want in text for text in said):
            print(f'bad.hip: {kernel.name} for {arch.name}: no complaint with "{want}", but {said}')
            failed += 1
    return failed, tried


def doc_table(rows):
    """A table in Markdown; neighbours with equal numbers share a row."""
    lines, last = ['| kernel | VGPR | SGPR | LDS | waves a SIMD | tile loop: stores, in flight, drains, live VGPRs |', '|---|---|---|---|---|---|'], None
    for name, vgprs, sgprs, lds, waves, _, _, _, tile in rows:
        numbers = f'{vgprs} | {sgprs} | {lds} | {waves} | {tile}'
        if last and last[2] == numbers:
            last[1] = name
        else:
            last = [name, name, numbers]
            lines.append(last)
    return '\n'.join(row if isinstance(row, str) else f'| {row[0] if row[0] == row[1] else f"{row[0]} to {row[1]}"} | {row[2]} |' for row in lines)


def matrix_row(kernel, arch, budget):
    """The row of a matrix kernel in the second table, without the kernel's name."""
    path = matrix.k_path(kernel)
    shares = [matrix.busy(kernel, arch, latency) for latency in (500, 1000, 2000)]
    cost = ', '.join(str(n) for n in matrix.numbers(kernel))
    return (f'{kernel.vgprs} | {kernel.sgprs} | {kernel.lds} | {cost} | {matrix.youngest(path)} | {matrix.in_flight(path)} | '
            f'{" / ".join(f"{share:.1f}" for share, _ in shares)} | {shares[1][1]:.0f}')


def matrix_table(rows):
    lines = ['| kernel | VGPR | SGPR | LDS | a K block: matrix, LDS reads, writes, loads, other | age | in flight | busy % at 500 / 1000 / 2000 clocks | clocks |',
             '|---|---|---|---|---|---|---|---|---|']
    return '\n'.join(lines + [f'| {name} | {text} |' for name, text in rows])


def check_doc(path, what, arch, version, new, write):
    """A table of docs/kernels.md, between its markers. Numbers are those of one compiler, so any other compares nothing."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    marks = re.search(r'<!-- %s (\S+) %s -->\n(.*?)\n?<!-- isa end -->' % (what, arch.name), text, re.S)
    if not marks:
        print(f'{path}: no place for the table of {arch.name}')
        return 1
    if write:
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text.replace(marks.group(0), f'<!-- {what} {version} {arch.name} -->\n{new}\n<!-- isa end -->'))
        return 0
    if marks.group(1) != version:
        print(f'clang {version}: the table of docs/kernels.md is of clang {marks.group(1)}, not compared')
        return 0
    if marks.group(2) != new:
        print(f'{path}: the table of {arch.name} is stale, renew it with --write:\n{new}')
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--arch', required=True)
    parser.add_argument('--clang', required=True)
    parser.add_argument('--write', action='store_true', help='renew the table in docs/kernels.md')
    parser.add_argument('--also', nargs=2, action='append', default=[], metavar=('SOURCE', 'OBJECT'), help='kernels of a test, with their ISA lines')
    parser.add_argument('objects', nargs='+', help='code objects, with and without trace')
    args = parser.parse_args()
    if not all(code_object.find_tool(t) for t in ('llvm-objdump', 'llvm-readelf')):
        print('llvm-objdump or llvm-readelf not found: skipped')
        return 77
    arch = code_object.Arch(args.arch)
    version = re.search(r'version (\S+)', subprocess.run([args.clang, '--version'], check=True, capture_output=True, text=True).stdout).group(1)
    budgets, failed, rows, matrix_rows, all_kernels = gates.read_budgets(gates.budget_files()), 0, [], [], {}
    for path in args.objects:
        traced = '_traced_' in os.path.basename(path)
        kernels = code_object.read_code_object(path)
        for k in kernels.values():
            for text in gates.check_kernel(k, arch, gates.budget_of(budgets, k, arch)):
                print(f'{os.path.basename(path)}: {k.name}: {text}')
                failed += 1
        for k in [] if traced else kernels.values():
            budget = gates.budget_of(budgets, k, arch) or {}
            if 'mfma' in budget and matrix.k_path(k):
                matrix_rows.append((k.name.removeprefix('ccl_k_'), matrix_row(k, arch, budget)))
            else:
                rows.append(gates.describe(k, arch))
        all_kernels.update({} if traced else kernels)
    gates.print_table(rows)
    for source, path in args.also:
        own, kernels = gates.read_budgets([source]), code_object.read_code_object(path)
        for k in kernels.values():
            for text in gates.check_kernel(k, arch, gates.budget_of(own, k, arch)):
                print(f'{os.path.basename(path)}: {k.name}: {text}')
                failed += 1
    with tempfile.TemporaryDirectory() as folder:
        wrong, number = check_rejections(args.clang, arch, folder)
        failed += wrong
        wrong_bases, bases_rows = inside.check(compile_kernels, args.clang, arch, folder, all_kernels) if arch.cdna else (0, [])
        failed += wrong_bases
    doc = os.path.join(ROOT, 'docs', 'kernels.md')
    failed += check_doc(doc, 'isa', arch, version, doc_table(rows), args.write)
    if bases_rows:
        print('\n' + inside.table(bases_rows))
        failed += check_doc(doc, 'bases', arch, version, inside.table(bases_rows), args.write)
    if matrix_rows:
        print('\n' + matrix_table(matrix_rows))
        failed += check_doc(doc, 'matrix', arch, version, matrix_table(matrix_rows), args.write)
    print(f'\n{arch.name}: {len(rows) + len(matrix_rows)} kernels and their traced forms, {number - wrong} of {number} bad kernels rejected, {failed} complaints')
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())

# SPDX-License-Identifier: MIT
#
# Gates on the machine code of the kernels: gates.py --arch gfx942 FILE.co... prints what is wrong with each kernel, a line each, and exits with 1 when
# there is anything. --table prints the numbers. What a kernel may use stands next to it in kernels/*.hip, in lines like
#
#   ISA push_8: vgpr 64, sgpr 106, lds 160, waves 7, tile 8, live 24
#
#   vgpr, sgpr, lds   at most so many registers, bytes of shared memory; agpr: none unless it is named
#   waves             a SIMD holds at least so many (CDNA)
#   tile N            an innermost loop loads one vector and stores it to N destinations. Each such loop of k stores: k stores in flight behind every
#                     wait, at most one wait an iteration that retires stores, no load of bases or tables, no release and no acquire
#   pairs N           the same with a vector of its own for each destination: an innermost loop loads N vectors and stores them to N places
#   live              VGPRs live in the tile and pair loops, at most (CDNA)
#   packets           polled words are the data themselves, so no invalidate follows the polls
#   mfma N            the K loop has N matrix instructions in a trip, which is one K block
#   age N             between a load in the K loop and the wait for it stand at least N matrix instructions of the wave
#   flight N          behind each wait for loads in the K loop at least N loads are in flight
#   busy N            per cent of the time that the matrix pipes are busy in the K loop, by the model in cycles.py
#   epilogue N        behind the K loop the longest way to the end of a tile stores N times 16 bytes; behind the first of these stores it loads nothing, at most one wait
#                     retires stores, and none stands directly in front of a store
#   expect WORD       tests/isa/bad.hip only: some complaint has this word
#
# A name may have * and ?, and @ARCH behind it; the last line that fits counts, and the same numbers hold for the traced form. Always: no spills, no scratch memory, no calls, no
# flat accesses, every write-back waited for, an invalidate between poll and payload, neither in a loop that copies.
import argparse
import fnmatch
import glob
import os
import re
import sys

import code_object
import epilogue
import flow
import matrix

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'kernels')


def budget_files():
    return sorted(glob.glob(os.path.join(KERNELS, '*.hip')))


def read_budgets(paths):
    """[(pattern, {key: number or word})] of all budget lines."""
    budgets = []
    for path in paths:
        with open(path, encoding='utf-8') as f:
            for name, text in re.findall(r'^\W*ISA (\S+): (.*?)(?:\s*\*/)?$', f.read(), re.M):
                budget = {}
                for field in text.split(','):
                    key, _, value = field.strip().partition(' ')
                    budget[key] = int(value) if value.isdigit() else value or True
                budgets.append((name, budget))
    return budgets


def budget_of(budgets, kernel, arch):
    name, fits = kernel.name.removeprefix('ccl_k_'), None
    for pattern, budget in budgets:
        pattern, _, only = pattern.partition('@')
        if fnmatch.fnmatchcase(name, pattern) and only in ('', arch.name):
            fits = budget
    return fits


def is_copy(code):
    return any(i.load and i.wide and not i.scoped() for i in code) and any(i.store and i.wide for i in code)


def find_tiles(kernel, fewest, pairs=False):
    """Innermost loops that load one vector, or with pairs as many as they store, and store at least `fewest` times."""
    tiles = []
    for loop in kernel.loops:
        code = kernel.loop_code(loop)
        stores, loads = sum(i.store and i.wide for i in code), sum(i.load and i.wide for i in code)
        if loop.inner and loads == (stores if pairs else 1) and stores >= fewest:
            tiles.append((stores, loop, code))
    return tiles


def check_tile(kernel, arch, stores, loop, code, live_most, kind):
    """Complaints about one loop; kind: tile or pair."""
    bad, loop_name = [], f'{kind} loop of {stores} stores'
    tables = [i for i in code if i.op.startswith(('s_load', 's_buffer_load')) or i.lds or (i.load and not i.wide)]
    if tables:
        bad.append(f'{loop_name}: base or table load inside, {tables[0].text}')
    drains = flow.count_drains(kernel, loop, arch)
    if drains is None:
        return bad + [f'{loop_name}: too many paths']
    if drains.low is not None and drains.low < stores:
        bad.append(f'{loop_name}: {drains.low} in flight behind a wait')
    if drains.retiring > 1 or drains.before_store > 1:
        bad.append(f'{loop_name}: {drains.retiring} waits retire stores, drains in front of {drains.before_store} stores')
    live = kernel.live_vgprs(loop)
    if live > live_most:
        bad.append(f'{loop_name}: {live} live VGPRs, {live_most} allowed')
    return bad


def check_tiles(kernel, arch, budget, pairs):
    most, live = budget['pairs' if pairs else 'tile'], budget.get('live', 10000) if arch.cdna else 10000
    kind, tiles = 'pair' if pairs else 'tile', find_tiles(kernel, min(most, 2), pairs)
    if not any(stores == most for stores, _, _ in tiles):
        return [f'no {kind} loop of {most} stores']
    checked = [check_tile(kernel, arch, stores, loop, code, live, kind) for stores, loop, code in tiles]
    if most == 1:  # copies of single vectors look like a tile loop with one destination: one loop of the kernel must pass
        return min(checked, key=len)
    return [text for bad in checked for text in bad]


def check_loops(kernel):
    bad = []
    for loop in kernel.loops:
        code = kernel.loop_code(loop)
        if loop.inner and is_copy(code):
            bad += [f'{i.text} inside a loop that copies' for i in code if i.invalidate or i.write_back]
    return bad


def check_kernel(kernel, arch, budget):
    """Complaints about one kernel."""
    if budget is None:
        return ['no budget: an ISA line next to the kernel is missing']
    bad = []
    for what, used in (('vgpr', kernel.vgprs), ('sgpr', kernel.sgprs if arch.cdna else 0), ('lds', kernel.lds), ('agpr', kernel.agprs)):
        if used > budget.get(what, 0):
            bad.append(f'{used} {what}, {budget.get(what, 0)} allowed')
    if arch.cdna and arch.waves(kernel) < budget.get('waves', 0):
        bad.append(f'{arch.waves(kernel)} waves a SIMD, {budget["waves"]} wanted')
    for kind, number in zip(('SGPR', 'VGPR'), kernel.spills):
        if number:
            bad.append(f'{number} {kind} spills')
    if kernel.scratch or kernel.dynamic_stack:
        bad.append(f'scratch memory: {kernel.scratch} bytes')
    for kind, wrong in (('flat access', [i for i in kernel.code if i.op.startswith('flat_')]),
                        ('scratch access', [i for i in kernel.code if i.op.startswith('scratch_')]),
                        ('call', [i for i in kernel.code if i.call])):
        if wrong:
            bad.append(f'{len(wrong)} times a {kind}, {wrong[0].text}')
    if any(i.call for i in kernel.code):
        return bad  # paths are not known
    bad += [f'write-back at {w.address:#x} not waited for before {i.text}' for w, i in flow.find_bare_write_backs(kernel, arch)]
    if not budget.get('packets'):
        bad += [f'{i.text} at {i.address:#x}: no invalidate since a poll' for i in flow.find_early_loads(kernel, arch)]
    bad += check_loops(kernel)
    for key in ('tile', 'pairs'):
        if key in budget:
            bad += check_tiles(kernel, arch, budget, key == 'pairs')
    if 'mfma' in budget:
        bad += matrix.check(kernel, arch, budget)
    if 'epilogue' in budget:
        bad += epilogue.check(kernel, arch, budget)
    return bad


def describe(kernel, arch):
    """The numbers of a kernel: (name, VGPR, SGPR, LDS, waves, spills, flat accesses, instructions, tile loop)."""
    tile = '-'
    pairs = kernel.name == 'ccl_k_parts'
    tiles = [(stores, flow.count_drains(kernel, loop, arch), loop) for stores, loop, _ in find_tiles(kernel, 2 if pairs else 1, pairs)]
    if tiles and (pairs or kernel.name.startswith('ccl_k_push')):
        stores, drains, loop = max(tiles, key=lambda t: (t[0], t[1].low or 0))
        low = 'all' if drains.low is None else drains.low
        tile = f'{stores}, {low}, {drains.retiring}, {kernel.live_vgprs(loop)}'
    return (kernel.name.removeprefix('ccl_k_'), kernel.vgprs, kernel.sgprs, kernel.lds, arch.waves(kernel), sum(kernel.spills),
            sum(i.op.startswith('flat_') for i in kernel.code), len(kernel.code), tile)


HEAD = ('kernel', 'VGPR', 'SGPR', 'LDS', 'waves', 'spills', 'flat', 'instr', 'tile: stores, in flight, drains, live')


def print_table(rows):
    width = [max(len(str(r[c])) for r in [HEAD, *rows]) for c in range(len(HEAD))]
    for r in [HEAD, *rows]:
        print('  '.join(str(v).ljust(w) if c in (0, len(HEAD) - 1) else str(v).rjust(w) for c, (v, w) in enumerate(zip(r, width))).rstrip())


def main():
    parser = argparse.ArgumentParser(description='Gates on the machine code of AMD code objects')
    parser.add_argument('--arch', required=True)
    parser.add_argument('--budgets', nargs='*', default=budget_files(), help='files with ISA lines')
    parser.add_argument('--table', action='store_true')
    parser.add_argument('objects', nargs='+')
    args = parser.parse_args()
    arch, budgets, complaints = code_object.Arch(args.arch), read_budgets(args.budgets), 0
    for path in args.objects:
        kernels = code_object.read_code_object(path)
        if not kernels:
            print(f'{path}: no kernels')
            complaints += 1
        for k in kernels.values():
            for text in check_kernel(k, arch, budget_of(budgets, k, arch)):
                print(f'{os.path.basename(path)}: {k.name}: {text}')
                complaints += 1
        if args.table:
            print_table([describe(k, arch) for k in kernels.values()])
    return complaints != 0


if __name__ == '__main__':
    sys.exit(main())

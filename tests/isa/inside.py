# SPDX-License-Identifier: MIT
#
# Loops that store to all ranks, as they are and with the bases of the peers looked up inside (CCL_TEST_BASES_INSIDE): the gates must take the first form and refuse the
# second. What both cost is a table of docs/kernels.md.
import os

import epilogue
import flow
import gates

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(os.path.dirname(os.path.dirname(HERE)), 'kernels')
SWITCH = '-DCCL_TEST_BASES_INSIDE'

# What is stored, kernel, its source with bases inside, what the gate of the loop complains with, how the loop is found.
FORMS = (('all-gather, 8 destinations (`push_8`)', 'push_8', os.path.join(HERE, 'inside.hip'), 'tile loop', 'tile'),
         ('all-to-all, 8 destinations (`parts`)', 'parts', os.path.join(KERNELS, 'parts.hip'), 'pair loop of 8', 'pairs'),
         ('broadcast, 8 destinations (`parts`)', 'parts', os.path.join(KERNELS, 'parts.hip'), 'tile loop of 8', 'tile'),
         ('epilogue of GEMM + all-gather, 8 ranks (`matmul_nk_f16`)', 'matmul_nk_f16', os.path.join(KERNELS, 'matmul.hip'), 'epilogue', 'epilogue'))


def wide_stores(kernel, loop):
    return sum(i.store and i.wide for i in kernel.loop_code(loop))


def measure(kernel, arch, how):
    """(stores, waits that retire stores, fewest stores in flight behind a wait, or all) of the loop, None where it is not found."""
    if how == 'epilogue':
        e = epilogue.measure(kernel, arch)
        return e and (e.stores, e.drains.retiring, 'all' if e.drains.low is None else e.drains.low)
    for loop in kernel.loops:
        code = kernel.loop_code(loop)
        loads = sum(i.load and i.wide for i in code)
        if loop.inner and wide_stores(kernel, loop) == 8 and loads == (8 if how == 'pairs' else 1):
            drains = flow.count_drains(kernel, loop, arch)
            return drains and (8, drains.retiring, 'all' if drains.low is None else drains.low)
    return None


def check(compile_kernels, clang, arch, folder, kernels):
    """(number of failures, rows of the table). kernels: those that are shipped, by name."""
    failed, rows, compiled, budgets = 0, [], {}, gates.read_budgets(gates.budget_files())
    for what, name, source, complaint, how in FORMS:
        shipped = kernels.get(f'ccl_k_{name}')
        if shipped is None:
            continue  # not compiled for this architecture
        if source not in compiled:
            compiled[source] = compile_kernels(clang, arch.name, source, os.path.join(folder, 'inside.co'), SWITCH)
        switched = compiled[source][f'ccl_k_{name}']
        said = {k: [t for t in gates.check_kernel(k, arch, gates.budget_of(budgets, k, arch)) if complaint in t] for k in (switched, shipped)}
        if not said[switched] or said[shipped]:
            print(f'{what} for {arch.name}: with bases inside the gate says {said[switched]}, as it is {said[shipped]}')
            failed += 1
        for form, k in (('bases looked up inside', switched), ('as it is', shipped)):
            found = measure(k, arch, how)
            if found is None:
                print(f'{what} for {arch.name}, {form}: no such loop')
                failed += 1
            rows.append((what, form, *(found or ('-', '-', '-'))))
    return failed, rows


def table(rows):
    lines = ['| stores to all ranks | form | stores | waits that retire stores | fewest in flight behind a wait |', '|---|---|---|---|---|']
    return '\n'.join(lines + ['| ' + ' | '.join(str(v) for v in row) + ' |' for row in rows])

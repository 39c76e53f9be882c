# SPDX-License-Identifier: MIT
#
# The K loop of a matrix kernel: which loop it is, its steady path, its waits, what the model of a compute unit says of it.
import cycles
import flow

LATENCY = 1000  # clocks of memory that the gate assumes


def is_matrix(i):
    return i.op.startswith('v_mfma')


def k_loop(kernel):
    """The loop with the most matrix instructions among those that hold no other loop with any; None: there are none in loops."""
    counted = [(sum(map(is_matrix, kernel.loop_code(loop))), loop) for loop in kernel.loops]
    counted = [(n, loop) for n, loop in counted if n]
    innermost = [(n, loop) for n, loop in counted if not any(o is not loop and o.header in loop.blocks for _, o in counted)]
    return max(innermost, key=lambda c: c[0])[1] if innermost else None


def k_path(kernel):
    """The instructions of one trip of the K loop: of all paths round it those with the most matrix instructions, of these the shortest. (A hook that finds its
    word at once takes a branch that skips the polling.)"""
    loop = k_loop(kernel)
    if loop is None:
        return None
    best = {}

    def weigh(b):
        code = kernel.blocks[b].code
        return sum(map(is_matrix, code)), -len(code)
    done = set()
    for b in reversed(flow.step_order(kernel, loop)):  # blocks behind those they lead to
        ways = [(*best[n][:2], n) for n in kernel.blocks[b].next if n in done and n != loop.header]
        if loop.header in kernel.blocks[b].next:
            ways.append((0, 0, None))
        done.add(b)
        if ways:
            ahead = max(ways, key=lambda w: w[:2])
            own = weigh(b)
            best[b] = own[0] + ahead[0], own[1] + ahead[1], ahead[2]
        else:
            best[b] = -1 << 30, 0, None
    path, b = [], loop.header
    while b is not None:
        path += kernel.blocks[b].code
        b = best[b][2]
    return path


def youngest(path):
    """Fewest matrix instructions between a load and the wait that retires it, in the steady state; None: no wait retires a load."""
    queue, clock, least = [], 0, None
    for trip in range(3):
        for i in path:
            clock += is_matrix(i)
            if i.vmem or i.invalidate:
                queue.append(clock)
            elif i.vm_wait() is not None and len(queue) > i.vm_wait():
                gone = queue[:len(queue) - i.vm_wait()]
                queue = queue[len(gone):]
                if trip:
                    age = clock - gone[-1]
                    least = age if least is None else min(least, age)
    return least


def in_flight(path):
    """Fewest loads that are outstanding behind a wait for loads, in the steady state; None: none waits."""
    queue, least = 0, None
    for trip in range(3):
        for i in path:
            if i.vmem:
                queue += 1
            elif i.vm_wait() is not None:
                queue = min(queue, i.vm_wait())
                if trip:
                    least = queue if least is None else min(least, queue)
    return least


def numbers(kernel):
    """What a K block of the loop costs: (matrix instructions, LDS reads, writes, loads, others)."""
    path = k_path(kernel)
    matrix, reads = sum(map(is_matrix, path)), sum(i.op.startswith('ds_read') for i in path)
    writes, loads = sum(i.op.startswith('ds_write') for i in path), sum(i.load for i in path)
    return matrix, reads, writes, loads, len(path) - matrix - reads - writes - loads


def busy(kernel, arch, latency):
    """Per cent of the time that the model's matrix pipes are busy, and clocks a K block."""
    share, clocks = cycles.matrix_busy(k_path(kernel), arch, latency)
    return 100 * share, clocks


def check(kernel, arch, budget):
    """Complaints about the K loop. budget: mfma, age, flight, busy."""
    path = k_path(kernel)
    if path is None:
        return ['no loop with matrix instructions']
    bad = []
    got = sum(map(is_matrix, path))
    if got != budget['mfma']:
        bad.append(f'{got} matrix instructions in a trip of the K loop, not {budget["mfma"]}')
    age, flight = youngest(path), in_flight(path)
    if age is not None and age < budget.get('age', 0):
        bad.append(f'a wait for a load {age} matrix instructions behind it, {budget["age"]} wanted')
    if flight is not None and flight < budget.get('flight', 0):
        bad.append(f'only {flight} loads in flight behind a wait, {budget["flight"]} wanted')
    if 'busy' in budget and not bad:
        share, _ = busy(kernel, arch, LATENCY)
        if share < budget['busy']:
            bad.append(f'matrix pipes {share:.1f} % busy at {LATENCY} clocks of latency, {budget["busy"]} wanted')
    return bad

# SPDX-License-Identifier: MIT
#
# The epilogue of a matrix kernel: what happens between its K loop and the last store of a tile, on the ways with the most stores of 16 bytes. A kernel that
# stores each vector to all ranks has its longest ways where there are as many ranks as it has places for.
import flow
import matrix


class Epilogue:
    """stores: of 16 bytes, on the longest way. loads: most vector loads of such a way behind its first store. drains: as flow.Drains."""

    def __init__(self, stores, loads, drains):
        self.stores, self.loads, self.drains = stores, loads, drains


def is_result(i):
    return i.store and i.op.startswith('buffer_store')


def reach(first, barred, ways):
    """The blocks that one gets to from some, these included, without those that are barred."""
    seen, work = set(), [b for b in first if b not in barred]
    while work:
        b = work.pop()
        if b not in seen:
            seen.add(b)
            work.extend(n for n in ways(b) if n not in barred)
    return seen


def find_region(kernel, whole):
    """Blocks between the K loop and the last stores of a tile, each behind those it is reached from, and those it begins with. whole: only ways that store nothing but
    vectors, as those of a tile do whose columns end with a chunk of 8. None: there are none, or there is a loop on the way."""
    k = matrix.k_loop(kernel)
    if k is None:
        return None
    barred = set(k.blocks)
    barred.update(loop.header for loop in kernel.loops if k.blocks < loop.blocks)  # the next tile
    if whole:
        barred.update(b.index for b in kernel.blocks if any(is_result(i) and not i.wide for i in b.code))
    stores = [b.index for b in kernel.blocks if any(is_result(i) and i.wide for i in b.code)]
    behind = reach({n for b in k.blocks for n in kernel.blocks[b].next} - k.blocks, barred, lambda b: kernel.blocks[b].next)
    inside = behind & reach(stores, barred, lambda b: kernel.blocks[b].before)
    starts = {n for b in k.blocks for n in kernel.blocks[b].next} & inside
    waiting = {b: sum(p in inside for p in kernel.blocks[b].before) for b in inside}
    order, work = [], [b for b in inside if waiting[b] == 0]
    while work:
        b = work.pop()
        order.append(b)
        for n in kernel.blocks[b].next:
            if n in inside:
                waiting[n] -= 1
                if waiting[n] == 0:
                    work.append(n)
    return (starts, order) if starts and len(order) == len(inside) else None


def measure(kernel, arch, whole=True):
    """The Epilogue of a kernel; None: it has none that can be followed."""
    region = find_region(kernel, whole)
    if region is None:
        return None
    starts, order = region
    at, final = {b: {(0, 0, ('', None, 0, 0, False, False))} for b in starts}, set()
    for b in order:
        states = at.pop(b, set())
        most = max((s[0] for s in states), default=0)
        states = {s for s in states if s[0] == most}  # a way that is behind another one here stays behind
        for i in kernel.blocks[b].code:
            states = {step(s, i, arch) for s in states}
        if len(states) > flow.MANY:
            return None
        final |= states
        for n in kernel.blocks[b].next:
            if n in order:
                at.setdefault(n, set()).update(states)
    most = max(s[0] for s in final)
    final = [s for s in final if s[0] == most]
    lows = [s[2][1] for s in final if s[2][1] is not None]
    return Epilogue(most, max(s[1] for s in final),
                    flow.Drains(min(lows) if lows else None, max(s[2][2] for s in final), max(s[2][3] for s in final)))


def step(state, i, arch):
    stores, loads, flown = state
    flown = flow.advance(flown, i, arch)
    stores += is_result(i) and i.wide
    if stores == 0:  # what is waited for in front of the first store is no store
        flown = (flown[0], None, 0, 0, False, flown[5])
    return stores, loads + (i.load and stores > 0), flown


def check(kernel, arch, budget):
    """Complaints about the epilogue. budget: epilogue, the stores of the longest way."""
    bad, most = [], budget['epilogue']
    for whole in (True, False):
        e, name = measure(kernel, arch, whole), 'epilogue' if whole else 'epilogue of a tile that ends within a chunk'
        if e is None:
            bad.append(f'{name}: no way from the K loop to a store that can be followed')
            continue
        if whole and e.stores != most:
            bad.append(f'{name}: {e.stores} stores on the longest way, not {most}')
        if e.loads:
            bad.append(f'{name}: {e.loads} loads behind the first store')
        if e.drains.retiring > 1 or e.drains.before_store:
            bad.append(f'{name}: {e.drains.retiring} waits retire stores, drains in front of {e.drains.before_store} stores')
    return bad

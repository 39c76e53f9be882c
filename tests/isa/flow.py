# SPDX-License-Identifier: MIT
#
# What happens along the paths of a kernel: stores in flight in its loops, write-backs that are waited for, invalidates behind polls. The
# counters are those of "Memory Model gfx90a", "gfx942" and "gfx12" in LLVM's AMDGPUUsage: on CDNA loads, stores and cache operations retire in
# order through vmcnt; elsewhere stores have a counter of their own.
import re

QUEUE = 63       # vmcnt has 6 bits
MANY = 20000     # states of one loop; none of ours has more than a few


class Drains:
    """One innermost loop in its steady state, over all paths of an iteration. low: fewest stores in flight behind a wait, None: none waits. retiring:
    most waits of an iteration that retire stores. before_store: most stores of an iteration that such a wait stands directly in front of."""

    def __init__(self, low, retiring, before_store):
        self.low, self.retiring, self.before_store = low, retiring, before_store


def step_order(kernel, loop):
    """Blocks of an innermost loop, each behind those it is reached from."""
    order, seen = [], set()

    def visit(b):
        seen.add(b)
        for n in kernel.blocks[b].next:
            if n in loop.blocks and n != loop.header and n not in seen:
                visit(n)
        order.append(b)
    visit(loop.header)
    return order[::-1]


def count_drains(kernel, loop, arch):
    """Drains of an innermost loop; None when it has too many paths."""
    order = step_order(kernel, loop)
    start = {''}
    for turn in range(4):
        at = {loop.header: {(q, None, 0, 0, False, False) for q in start}}
        ends = set()
        for b in order:
            states = at.pop(b, set())
            for i in kernel.blocks[b].code:
                states = {advance(s, i, arch) for s in states}
            if len(states) > MANY:
                return None
            for n in kernel.blocks[b].next:
                if n == loop.header:
                    ends |= states
                elif n in loop.blocks:
                    at.setdefault(n, set()).update(states)
        ends = {s for s in ends if s[5]}  # a way round without an access takes no time, and the last one out of the loop looks like that
        if not ends:
            return Drains(None, 0, 0)
        start = {s[0] for s in ends}
    lows = [s[1] for s in ends if s[1] is not None]
    return Drains(min(lows) if lows else None, max(s[2] for s in ends), max(s[3] for s in ends))


def advance(state, i, arch):
    queue, low, retiring, before_store, drained, any_access = state
    if i.store:
        return (queue + 'S')[-QUEUE:], low, retiring, before_store + drained, False, True
    if i.vmem or i.invalidate or i.write_back:
        return (queue + 'L')[-QUEUE:] if arch.cdna else queue, low, retiring, before_store, False, True
    wait = i.vm_wait() if arch.cdna else i.store_wait()
    if wait is None:
        return state
    gone, queue = queue[:max(0, len(queue) - wait)], queue[max(0, len(queue) - wait):]
    stores = queue.count('S')
    retires = 'S' in gone
    return queue, stores if low is None else min(low, stores), retiring + retires, before_store, drained or retires, any_access


def find_bare_write_backs(kernel, arch):
    """Write-backs of a cache that are not waited for before the next memory access, barrier or branch: what follows could be seen before the lines
    are. (Compilers leave the wait out where the wave has no access of its own outstanding.)"""
    found = []
    for b in kernel.blocks:
        pending = None
        for i in b.code:
            wait = i.vm_wait() if arch.cdna else i.store_wait()
            if i.write_back:
                pending = i
            elif pending and wait == 0:
                pending = None
            elif pending and (i.vmem or i.lds or i.branch or i.ends or i.invalidate or i.op.startswith('s_barrier')):
                found.append((pending, i))
                pending = None
        if pending:
            found.append((pending, b.code[-1]))
    return found


def is_payload_load(i):
    return i.load and not i.scoped() and not re.search(r'x2$|b64$', i.op)


def invalidates_for_system(i, arch):
    if arch.name == 'gfx90a':
        return i.op == 'buffer_wbinvl1_vol'
    if arch.cdna:
        return i.op == 'buffer_inv' and 'sc0' in i.args and 'sc1' in i.args
    return i.op == 'buffer_gl0_inv' or (i.op == 'global_inv' and 'SCOPE_SYS' in i.args)


def find_polling(kernel):
    """Blocks that every turn of a waiting loop passes: the smallest loops with s_sleep. What such a loop looks at now and then does not count."""
    polling = set()
    for b in kernel.blocks:
        around = [loop for loop in kernel.loops if b.index in loop.blocks]
        if around and any(i.op == 's_sleep' for i in b.code):
            loop = min(around, key=lambda loop: len(loop.blocks))
            polling |= {x for x in loop.blocks if x == loop.header or not goes_round(kernel, loop, x)}
    return polling


def goes_round(kernel, loop, without):
    """Can the loop get back to its header without that block?"""
    seen, work = {without}, [loop.header]
    while work:
        for n in kernel.blocks[work.pop()].next:
            if n == loop.header:
                return True
            if n in loop.blocks and n not in seen:
                seen.add(n)
                work.append(n)
    return False


def find_early_loads(kernel, arch):
    """Payload loads that some path reaches from a poll without an invalidate behind the arrival of the polled word. A poll is a system-scope load in
    each turn of a waiting loop. State of a path: None; n accesses since the poll; -1: the word has arrived."""
    polling = find_polling(kernel)
    entry = [set() for _ in kernel.blocks]
    entry[0] = {None}
    work, found = [0], {}
    while work:
        b = work.pop()
        states = set(entry[b])
        for i in kernel.blocks[b].code:
            if b in polling and i.load and i.system():
                states = {0}
            elif is_payload_load(i) and states != {None}:
                found[i.address] = i
            elif i.vmem:
                states = {s if s in (None, -1) or not (arch.cdna or i.load) else min(s + 1, QUEUE) for s in states}
            elif i.vm_wait() is not None:
                states = {-1 if s is not None and i.vm_wait() <= s else s for s in states}
            elif invalidates_for_system(i, arch):
                states = {None if s == -1 else s for s in states}
        for n in kernel.blocks[b].next:
            if not states <= entry[n]:
                entry[n] |= states
                work.append(n)
    return list(found.values())

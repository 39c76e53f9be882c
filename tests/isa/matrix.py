# SPDX-License-Identifier: MIT
#
# The K loop of a matrix kernel: which loop it is, its steady path, its waits.


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
    order, seen = [], set()

    def visit(b):  # blocks behind those they lead to; back edges are left out
        seen.add(b)
        for n in kernel.blocks[b].next:
            if n in loop.blocks and n != loop.header and n not in seen:
                visit(n)
        order.append(b)
    visit(loop.header)
    done = set()
    for b in order:
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

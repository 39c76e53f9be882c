# SPDX-License-Identifier: MIT
#
# An AMD code object as the gates see it: the kernels' descriptors (llvm-readelf --notes), their instructions (llvm-objdump -d), basic
# blocks, natural loops and the VGPRs that are live. Only text of these two programs is read, so any version of them will do that knows
# the architecture.
import re
import shutil
import subprocess


def find_tool(name):
    """Path of an LLVM program, a recent one where several are installed; None when there is none."""
    found = [shutil.which(f'{name}-{version}') for version in (22, 23, 24, 25, 26)]
    found += [shutil.which(name, path='/opt/rocm/llvm/bin'), shutil.which(name)]
    return next((path for path in found if path), None)


def run_tool(name, *args):
    path = find_tool(name)
    if path is None:
        raise FileNotFoundError(f'{name} not found')
    return subprocess.run([path, *args], check=True, capture_output=True, text=True).stdout


class Arch:
    """What depends on the architecture. cdna: loads and stores retire in order through one counter (vmcnt)."""

    def __init__(self, name):
        self.name = name
        self.cdna = name in ('gfx90a', 'gfx942', 'gfx950')
        self.gfx12 = name.startswith('gfx12')
        self.lanes = 64 if self.cdna else 32
        self.max_waves = 8 if self.cdna else 16                     # a SIMD
        self.vgprs = 512 if self.cdna else 2048 if name == 'gfx1250' else 1536
        self.vgpr_granule = 8 if self.cdna else 32 if name == 'gfx1250' else 24
        self.lds = {'gfx950': 160, 'gfx1250': 320}.get(name, 64 if self.cdna else 128) << 10  # bytes a compute unit, of RDNA a pair
        self.simds = 4

    def waves(self, kernel):
        """Waves of the kernel that a SIMD holds at most."""
        granule = self.vgpr_granule
        alloc = max(1, (kernel.vgprs + granule - 1) // granule) * granule
        most = min(self.max_waves, self.vgprs // alloc)
        if self.cdna and kernel.sgprs > 100:
            most = min(most, 7)
        if kernel.lds:
            a_block = (kernel.threads + self.lanes - 1) // self.lanes
            most = min(most, self.lds // kernel.lds * a_block // self.simds)
        return most


def registers(text, letter):
    """Numbers of the registers of one letter (v, s, a) in an operand."""
    found = set()
    for first, last, one in re.findall(r'(?<![a-z0-9_.])%s(?:\[(\d+):(\d+)\]|(\d+))' % letter, text):
        found.update([int(one)] if one else range(int(first), int(last) + 1))
    return found


VMEM = re.compile(r'(global|flat|buffer|scratch)_(load|store|atomic)')
INVALIDATE = re.compile(r'buffer_(inv|invl2|wbinvl1|gl0_inv|gl1_inv)|global_inv')
WRITE_BACK = re.compile(r'buffer_wbl2|global_wb')
NO_RESULT = re.compile(r'(v_cmpx?_|v_readlane|v_readfirstlane|s_|buffer_inv|buffer_wb|ds_(write|store)|\w+_store|v_nop)')


class Instruction:
    def __init__(self, address, text):
        self.address = address
        parts = text.split(None, 1)
        self.op = re.sub(r'_(e32|e64|sdwa|dpp|e64_dpp)$', '', parts[0])
        self.args = parts[1].strip() if len(parts) > 1 else ''
        self.text = f'{parts[0]} {self.args}'.strip()
        self.target = None
        self.load = bool(re.match(r'(global|flat|buffer|scratch)_load', self.op))
        self.store = bool(re.match(r'(global|flat|buffer|scratch)_store', self.op))
        self.atomic = bool(re.match(r'(global|flat|buffer)_atomic', self.op))
        self.vmem = bool(VMEM.match(self.op))
        self.lds = self.op.startswith('ds_')
        self.invalidate = bool(INVALIDATE.match(self.op))
        self.write_back = bool(WRITE_BACK.match(self.op))
        self.branch = self.op.startswith(('s_branch', 's_cbranch'))
        self.ends = self.op in ('s_endpgm', 's_endpgm_saved')
        self.call = bool(re.match(r's_(swap_?pc|set_?pc|call)', self.op))
        self.wide = bool(re.search(r'x4$|b128$', self.op))

    def scoped(self):
        """An access with scope or cache bits: a word that ranks or blocks share, not payload."""
        return bool(re.search(r'\b(sc0|sc1|glc|scope:SCOPE_(DEV|SYS))\b', self.args))

    def system(self):
        """A load that a system-scope wait polls. gfx90a and gfx11 have one bit for all scopes."""
        return bool(re.search(r'\bsc0 sc1\b|\bglc\b|scope:SCOPE_SYS', self.args))

    def vm_wait(self):
        """Accesses that may be outstanding behind this wait, None: it waits for none of them."""
        found = re.search(r'\bvmcnt\((\d+)\)', self.args) if self.op == 's_waitcnt' else None
        if found:
            return int(found.group(1))
        if self.op.startswith('s_wait_loadcnt'):
            return int(self.args.split()[0], 0)
        return None

    def store_wait(self):
        """The same for stores where they have a counter of their own."""
        if self.op.startswith('s_wait_storecnt') or self.op == 's_waitcnt_vscnt':
            return int(self.args.split()[-1], 0)
        return None

    def vgpr_access(self):
        """(defined, used) VGPRs; AGPRs count from 1000 on."""
        defs, uses = set(), set()
        for half in re.sub(r'\s*::\s*', '\n', self.text).split('\n'):
            op, _, args = half.partition(' ')
            operands = [registers(o, 'v') | {1000 + r for r in registers(o, 'a')} for o in args.split(',')]
            no_result = NO_RESULT.match(op) or (self.atomic and not re.search(r'sc0|glc|RETURN', self.args))
            if no_result or not operands:
                uses.update(*operands)
                continue
            defs |= operands[0]
            uses.update(*operands[1:])
            if re.match(r'v_(fmac|mac|dot\w*c|writelane|swap)|ds_(?:read|load)_u8_d16|global_load_d16', op) or 'd16' in op:
                uses |= operands[0]
            if op.startswith('v_swap'):
                defs |= operands[1]
        return defs, uses


class Block:
    def __init__(self, index):
        self.index = index
        self.code = []
        self.next = []
        self.before = []


class Loop:
    """A natural loop: its header and the set of its blocks. inner: no other loop starts inside."""

    def __init__(self, header, blocks):
        self.header, self.blocks, self.inner = header, blocks, True


class Kernel:
    def __init__(self, name, notes):
        def number(key):
            found = re.search(r'\.%s:\s+(\d+)' % key, notes)
            return int(found.group(1)) if found else 0
        self.name = name
        self.vgprs, self.agprs = number('vgpr_count'), number('agpr_count')
        self.sgprs = number('sgpr_count')
        self.spills = (number('sgpr_spill_count'), number('vgpr_spill_count'))
        self.scratch = number('private_segment_fixed_size')
        self.dynamic_stack = bool(re.search(r'uses_dynamic_stack:\s+true', notes))
        self.lds = number('group_segment_fixed_size')
        self.threads = number('max_flat_workgroup_size')
        self.code = []
        self._blocks = self._loops = self._live = None

    @property
    def blocks(self):
        if self._blocks is None:
            self._blocks = make_blocks(self.code)
        return self._blocks

    @property
    def loops(self):
        if self._loops is None:
            self._loops = find_loops(self.blocks)
        return self._loops

    def loop_code(self, loop):
        return [i for b in sorted(loop.blocks) for i in self.blocks[b].code]

    def live_vgprs(self, loop):
        """Most VGPRs of those that the loop reads or writes that are live at one point of it. What only lives across it is the kernel's affair. A write
        counts as one of all lanes."""
        if self._live is None:
            self._access = [[tuple(sum(1 << r for r in half) for half in i.vgpr_access()) for i in b.code] for b in self.blocks]
            self._live = [0] * len(self.blocks)
            work = set(range(len(self.blocks)))
            while work:
                b = max(work)
                work.remove(b)
                live, _ = self._walk(b)
                if live != self._live[b]:
                    self._live[b] = live
                    work.update(self.blocks[b].before)
        own = 0
        for b in loop.blocks:
            for defs, uses in self._access[b]:
                own |= defs | uses
        return max(self._walk(b, own)[1] for b in loop.blocks)

    def _walk(self, b, own=0):
        live, peak = 0, 0
        for n in self.blocks[b].next:
            live |= self._live[n]
        for defs, uses in reversed(self._access[b]):
            peak = max(peak, ((live | defs) & own).bit_count())
            live = (live & ~defs) | uses
        return live, max(peak, (live & own).bit_count())


def make_blocks(code):
    at = {i.address: n for n, i in enumerate(code)}
    leaders = {0}
    for n, i in enumerate(code):
        if i.branch and i.target in at:
            leaders.add(at[i.target])
        if (i.branch or i.ends or i.call) and n + 1 < len(code):
            leaders.add(n + 1)
    blocks, first_of = [], {}
    for n, i in enumerate(code):
        if n in leaders:
            first_of[n] = len(blocks)
            blocks.append(Block(len(blocks)))
        blocks[-1].code.append(i)
    for b in blocks:
        last = b.code[-1]
        if last.branch and last.target in at:
            b.next.append(first_of[at[last.target]])
        falls = not (last.ends or last.op == 's_branch' or last.op.startswith(('s_setpc', 's_set_pc')))
        if falls and b.index + 1 < len(blocks) and b.index + 1 not in b.next:
            b.next.append(b.index + 1)
    for b in blocks:
        for n in b.next:
            blocks[n].before.append(b.index)
    return blocks


def find_loops(blocks):
    """Natural loops, by dominators. The compiler makes reducible graphs only, so these are all."""
    order, seen = [], set()
    stack = [(0, iter(blocks[0].next))]
    seen.add(0)
    while stack:
        b, rest = stack[-1]
        for n in rest:
            if n not in seen:
                seen.add(n)
                stack.append((n, iter(blocks[n].next)))
                break
        else:
            order.append(b)
            stack.pop()
    order.reverse()
    place = {b: n for n, b in enumerate(order)}
    above = {0: 0}
    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            new = None
            for p in blocks[b].before:
                if p in above:
                    x = p
                    while new is not None and x != new:
                        if place[x] > place[new]:
                            x = above[x]
                        else:
                            new = above[new]
                    new = x if new is None else new
            if above.get(b) != new:
                above[b] = new
                changed = True

    def dominates(a, b):
        while place[b] > place[a]:
            b = above[b]
        return a == b
    loops = {}
    for b in order:
        for h in blocks[b].next:
            if dominates(h, b):
                body, work = loops.setdefault(h, {h}), [b]
                while work:
                    x = work.pop()
                    if x not in body:
                        body.add(x)
                        work.extend(blocks[x].before)
    found = [Loop(h, body) for h, body in sorted(loops.items())]
    for a in found:
        a.inner = not any(o is not a and o.header in a.blocks for o in found)
    return found


def read_code_object(path):
    """The kernels of a code object, by name, with their instructions."""
    notes = run_tool('llvm-readelf', '--notes', path)
    kernels = {}
    for part in re.split(r'\n  - (?=\.a)', notes)[1:]:
        symbol = re.search(r"\.symbol:\s+'?([\w$.]+?)\.kd'?\s", part)
        if symbol:
            kernels[symbol.group(1)] = Kernel(symbol.group(1), part)
    current, base = None, {}
    for line in run_tool('llvm-objdump', '-d', path).split('\n'):
        head = re.match(r'^([0-9a-f]+) <([^>]+)>:', line)
        if head:
            base[head.group(2)] = int(head.group(1), 16)
            current = kernels.get(head.group(2))
            continue
        found = re.match(r'^\t([a-z]\S*(?:\s.*?)?)\s*// ([0-9A-F]+):', line)
        if not found or current is None or found.group(1).startswith('s_code_end'):
            continue
        i = Instruction(int(found.group(2), 16), found.group(1))
        current.code.append(i)
        if i.branch:
            name, _, off = re.search(r'<([^>]+)>\s*$', line).group(1).partition('+')
            i.target = base[name] + int(off or '0', 0)
    for k in kernels.values():
        while k.code and k.code[-1].op in ('s_nop', 's_code_end'):
            k.code.pop()  # padding behind the end
    return kernels

# SPDX-License-Identifier: MIT
#
# A model of one compute unit that runs the steady K loop of a GEMM with 8 waves: how busy its matrix pipes are. A model, not a measurement.
#
# Each of 4 SIMDs has two of the waves and an issue slot every 4 clocks, in which each wave issues at most one instruction and each unit (matrix and
# vector, scalar, LDS, vector memory) takes at most one. Matrix pipe: 16 clocks an instruction (gfx90a: 32), results forwarded. LDS: one pipe for
# the unit, bytes / width clocks an access, a fixed latency behind it; no bank conflicts (the interpreter counts them). Vector memory: the address
# unit takes one clock a byte of a lane, then a latency; results in order; loads into LDS also take its write port. Barriers cost 16 clocks behind the last
# arrival. Waits count as the hardware counts.
import re

LDS_LATENCY = 64
BARRIER = 16
QUEUE = 256  # clocks of work that LDS and address unit accept ahead
WAVES = 8
UNITS = {'mfma': 'v', 'valu': 'v', 'salu': 's', 'read': 'l', 'write': 'l', 'load': 'm', 'load_lds': 'm'}


def lds_bytes(op):
    width = 16 if 'b128' in op else 8 if 'b64' in op else 4
    return width * (2 if re.match(r'ds_(read|write)2', op) else 1)


def load_bytes(op):
    return {'x4': 16, 'x3': 12, 'x2': 8}.get(op[-2:], 4)


def kinds(path):
    """The path of a loop as (kind, number): what the model knows of an instruction."""
    found = []
    for i in path:
        if i.op.startswith('v_mfma'):
            found.append(('mfma', 0))
        elif i.lds:
            found.append(('read' if i.op.startswith('ds_read') else 'write', lds_bytes(i.op)))
        elif i.load:
            found.append(('load_lds' if re.search(r'\blds\b', i.args) else 'load', load_bytes(i.op)))
        elif i.op == 's_waitcnt':
            lgkm = re.search(r'lgkmcnt\((\d+)\)', i.args)
            found.append(('wait', (99 if i.vm_wait() is None else i.vm_wait(), int(lgkm.group(1)) if lgkm else 99)))
        elif i.op == 's_barrier':
            found.append(('barrier', 0))
        elif i.op == 's_nop':
            found.append(('nop', int(i.args, 0)))
        else:
            found.append(('valu' if i.op.startswith('v_') else 'salu', 0))
    return tuple(found)


class Wave:
    def __init__(self, number):
        self.number, self.place, self.trips, self.ready, self.at_barrier = number, 0, 0, 4 * number, False
        self.vm, self.lgkm = [], []  # when the outstanding accesses end


class Unit:
    def __init__(self, program, arch, latency):
        self.program, self.latency = program, latency
        self.read_width = 256 if arch.name == 'gfx950' else 128
        self.matrix = 32 if arch.name == 'gfx90a' else 16
        self.waves = [Wave(n) for n in range(WAVES)]
        self.pipe = [0] * 4  # of each SIMD: free from
        self.busy = self.lds = self.address = 0

    def issue(self, w, simd, now, used):
        """One instruction of a wave, and the waits that stand before it and are over."""
        while True:
            kind, x = self.program[w.place]
            if kind != 'wait':
                break
            w.vm, w.lgkm = [t for t in w.vm if t > now], [t for t in w.lgkm if t > now]
            if len(w.vm) > x[0] or len(w.lgkm) > x[1]:
                return
            self.step(w)
        unit = UNITS.get(kind)
        if unit in used or not self.accept(w, kind, x, simd, now):
            return
        if unit:
            used.add(unit)
        w.ready = max(w.ready, now + 4)
        self.step(w)

    def accept(self, w, kind, x, simd, now):
        if kind == 'mfma':
            if self.pipe[simd] > now:
                return False
            self.pipe[simd] = now + self.matrix
            self.busy += self.matrix
        elif kind in ('read', 'write'):
            if self.lds > now + QUEUE:
                return False
            self.lds = max(self.lds, now) + 64 * x // (self.read_width if kind == 'read' else 128)
            w.lgkm.append(self.lds + LDS_LATENCY)
        elif kind in ('load', 'load_lds'):
            if self.address > now + QUEUE:
                return False
            self.address = max(self.address, now) + x
            if kind == 'load_lds':
                self.lds = max(self.lds, now) + 64 * x // 128
            w.vm.append(max(self.address + self.latency, w.vm[-1] if w.vm else 0))
        elif kind == 'nop':
            w.ready = now + 4 * x
        elif kind == 'barrier':
            w.at_barrier = True
        return True

    def step(self, w):
        w.place += 1
        if w.place == len(self.program):
            w.place, w.trips = 0, w.trips + 1

    def run(self, warm, trips):
        """(share of the time that the matrix pipes are busy, clocks a trip), behind `warm` trips."""
        clock, start, before = 0, None, 0
        while min(w.trips for w in self.waves) < warm + trips:
            for simd in range(4):
                used = set()
                for w in (self.waves[simd], self.waves[simd + 4]):
                    if not w.at_barrier and w.ready <= clock + simd:
                        self.issue(w, simd, clock + simd, used)
            if all(w.at_barrier for w in self.waves):
                for w in self.waves:
                    w.at_barrier, w.ready = False, clock + BARRIER
            clock += 4
            if start is None and min(w.trips for w in self.waves) >= warm:
                start, before = clock, self.busy
            if clock > 1 << 22:
                return 0.0, 0
        return (self.busy - before) / 4 / (clock - start), (clock - start) / trips


known = {}


def matrix_busy(path, arch, latency):
    """(busy, clocks a K block), which is a trip."""
    key = (kinds(path), arch.name, latency)
    if key not in known:
        known[key] = Unit(key[0], arch, latency).run(4, 4)
    return known[key]

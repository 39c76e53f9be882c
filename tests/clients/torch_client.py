#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A PyTorch program for tests/clients.sh: torch.distributed with the nccl backend, all ranks on device 0, against gloo on the CPU. It knows nothing of
libccl; which library answers is decided by LD_PRELOAD.

Prints "torch_client: all right" when every rank found everything right.

Usage: torch_client.py --ranks N collectives|groups|split|graphs|ddp|fsdp|leave|death
"""
import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

TYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
COUNTS = [1, 7, 1024, 100003]
bad = 0


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def check(what, got, want):
    global bad
    got, want = got.detach().double().cpu(), want.detach().double().cpu()
    if got.shape != want.shape or not torch.equal(got, want):
        bad += 1
        where = (got != want).flatten().nonzero() if got.shape == want.shape else torch.zeros(0)
        print(f"rank {rank()}: {what}: {len(where)} of {want.numel()} elements differ, first {where[:1].tolist()}", flush=True)


def data(count, dtype, of, seed=0):
    """Small integers, so that every sum and product of the ranks is exact in every type, or wraps (8 ranks: 256 in 8 bits)."""
    g = torch.Generator().manual_seed(1000 * seed + of)
    return torch.randint(0, 3, (count,), generator=g).to(dtype)


def gpu(count, dtype, seed=0):
    return data(count, dtype, rank(), seed).cuda()


def all_data(count, dtype, seed=0):
    return [data(count, dtype, r, seed) for r in range(size())]


def reduced(parts, op):
    """The reference of a reduction, by gloo's own rules: joined in wide types; what does not fit an integer type wraps."""
    dtype = parts[0].dtype
    stack = torch.stack([p.double() if dtype.is_floating_point else p.long() for p in parts])
    joined = {"SUM": lambda: stack.sum(0), "PRODUCT": lambda: stack.prod(0), "MIN": lambda: stack.min(0).values, "MAX": lambda: stack.max(0).values}
    return joined[op]() if dtype.is_floating_point else joined[op]().to(dtype)


def run_collectives(reference):
    n = size()
    for dtype in TYPES:
        for count in COUNTS:
            what = f"{dtype} {count}"
            parts = all_data(count, dtype)
            for op in ("SUM", "PRODUCT", "MIN", "MAX"):
                t = gpu(count, dtype)
                dist.all_reduce(t, getattr(dist.ReduceOp, op))
                check(f"all_reduce {op} {what}", t, reduced(parts, op))
            if dtype in (torch.float32, torch.int32):  # gloo itself, not only its rules
                t, host = gpu(count, dtype), data(count, dtype, rank())
                dist.all_reduce(t)
                dist.all_reduce(host, group=reference)
                check(f"all_reduce against gloo {what}", t, host)
            if n in (2, 4, 8) and dtype.is_floating_point:
                t = gpu(count, dtype)
                dist.all_reduce(t, dist.ReduceOp.AVG)
                check(f"all_reduce AVG {what}", t, (reduced(parts, "SUM") / n).to(dtype))
            t = gpu(count, dtype)
            dist.broadcast(t, n - 1)
            check(f"broadcast {what}", t, parts[n - 1])
            t = gpu(count, dtype)
            dist.reduce(t, 0)
            if rank() == 0:
                check(f"reduce {what}", t, reduced(parts, "SUM"))
            out = torch.empty(n * count, dtype=dtype, device="cuda")
            dist.all_gather_into_tensor(out, gpu(count, dtype))
            check(f"all_gather_into_tensor {what}", out, torch.cat(parts))
            outs = [torch.empty(count, dtype=dtype, device="cuda") for _ in range(n)]
            dist.all_gather(outs, gpu(count, dtype))
            check(f"all_gather {what}", torch.cat(outs), torch.cat(parts))
            wide = [data(n * count, dtype, r, 1) for r in range(n)]
            out = torch.empty(count, dtype=dtype, device="cuda")
            dist.reduce_scatter_tensor(out, wide[rank()].cuda())
            check(f"reduce_scatter {what}", out, reduced(wide, "SUM")[rank() * count:(rank() + 1) * count])
            out = torch.empty(n * count, dtype=dtype, device="cuda")
            dist.all_to_all_single(out, wide[rank()].cuda())
            check(f"all_to_all {what}", out, torch.cat([w[rank() * count:(rank() + 1) * count] for w in wide]))
            got = [torch.empty(count, dtype=dtype, device="cuda") for _ in range(n)] if rank() == 0 else None
            dist.gather(gpu(count, dtype), got, 0)
            if rank() == 0:
                check(f"gather {what}", torch.cat(got), torch.cat(parts))
            out = torch.empty(count, dtype=dtype, device="cuda")
            dist.scatter(out, list(wide[0].cuda().chunk(n)) if rank() == 0 else None, 0)
            check(f"scatter {what}", out, wide[0][rank() * count:(rank() + 1) * count])
    dist.barrier()


def run_groups(_):
    n, me = size(), rank()
    for count in COUNTS:
        outs = [torch.empty(count, device="cuda") for _ in range(n)]
        mine = gpu(count, torch.float32)
        ops = [dist.P2POp(dist.isend, mine, p) for p in range(n) if p != me] + [dist.P2POp(dist.irecv, outs[p], p) for p in range(n) if p != me]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        outs[me].copy_(mine)
        check(f"batch_isend_irecv {count}", torch.cat(outs), torch.cat(all_data(count, torch.float32)))
        # Parts of different sizes, some of them empty: a group of broadcasts, of messages.
        parts = [data(count * r, torch.float32, r) for r in range(n)]
        outs = [torch.empty(count * r, device="cuda") for r in range(n)]
        dist.all_gather(outs, parts[me].cuda())
        check(f"uneven all_gather {count}", torch.cat(outs), torch.cat(parts))
        out = torch.empty(count * sum(range(n)), device="cuda")
        dist.all_to_all_single(out, torch.cat([parts[me]] * n).cuda(), [count * r for r in range(n)], [count * me] * n)
        check(f"uneven all_to_all {count}", out, torch.cat(parts))
        outs = [torch.empty(n * count, device="cuda") for _ in range(5)]
        with dist._coalescing_manager(group=dist.group.WORLD, device=torch.device("cuda:0"), async_ops=True) as manager:
            for i, out in enumerate(outs):
                dist.all_gather_into_tensor(out, gpu(count, torch.float32, i))
        manager.wait()
        for i, out in enumerate(outs):
            check(f"coalesced all_gather {i} {count}", out, torch.cat(all_data(count, torch.float32, i)))


def run_split(_):
    n, me = size(), rank()
    half = [r for r in range(n) if r % 2 == me % 2]
    groups = [dist.new_group([r for r in range(n) if r % 2 == parity]) for parity in (0, 1)]
    t = torch.full((1000,), float(me), device="cuda")
    dist.all_reduce(t, group=groups[me % 2])
    check("new_group", t, torch.full((1000,), float(sum(half))))
    if hasattr(dist, "split_group"):
        child = dist.split_group(split_ranks=[[r for r in range(n) if r % 2 == 0], [r for r in range(n) if r % 2 == 1]])
        t = torch.full((1000,), float(me), device="cuda")
        dist.all_reduce(t, group=child)
        check("split_group", t, torch.full((1000,), float(sum(half))))
    t = torch.full((1000,), float(me), device="cuda")
    dist.all_reduce(t)
    check("the whole, afterwards", t, torch.full((1000,), float(sum(range(n)))))


def run_graphs(_):
    n = size()
    mine, out = torch.zeros(4096, device="cuda"), torch.zeros(4096 * n, device="cuda")
    dist.all_gather_into_tensor(out, mine)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_gather_into_tensor(out, mine)
        dist.all_reduce(mine)
    for i in range(20):
        mine.copy_(data(4096, torch.float32, rank(), i))
        graph.replay()
        parts = all_data(4096, torch.float32, i)
        check(f"replayed all_gather {i}", out, torch.cat(parts))
        check(f"replayed all_reduce {i}", mine, reduced(parts, "SUM"))
        eager = gpu(100, torch.float32, i)
        dist.all_reduce(eager)
        check(f"eager between replays {i}", eager, reduced(all_data(100, torch.float32, i), "SUM"))


def model():
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.nn.Linear(64, 1))


def train(net, device, steps=50):
    """Losses of this rank; float64, so that the order of additions does not show in what is compared."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for step in range(steps):
        g = torch.Generator().manual_seed(step * 100 + rank())
        x = torch.randn(8, 12, 16, generator=g, dtype=torch.float64).to(device)
        loss = (net(x).mean(dim=(1, 2)) - x.mean(dim=(1, 2))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def compare_training(got, reference):
    from torch.nn.parallel import DistributedDataParallel
    global bad
    want = train(DistributedDataParallel(model().double(), process_group=reference), "cpu")
    error = ((got - want).abs() / want.abs().clamp_min(1e-9)).max().item()
    if not error < 1e-6:
        bad += 1
        print(f"rank {rank()}: losses differ by {error:g}: {got[-3:].tolist()} and {want[-3:].tolist()}", flush=True)


def run_ddp(reference):
    from torch.nn.parallel import DistributedDataParallel
    compare_training(train(DistributedDataParallel(model().double().cuda(), device_ids=[0]), "cuda"), reference)


def run_fsdp(reference):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    net = model().double().cuda()
    mesh = init_device_mesh("cuda", (size(),))
    for layer in net[1].layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    compare_training(train(net, "cuda"), reference)


def run_leave(_):
    """Nothing is destroyed: exit with live communicators, some of which have just been used."""
    t = torch.ones(1000, device="cuda")
    dist.all_reduce(t)
    check("all_reduce", t, torch.full((1000,), float(size())))


def run_death(_):
    """The last rank dies; the others' watchdog or call sees it. They leave with an exception, or are ended by the watchdog."""
    dist.all_reduce(torch.ones(1000, device="cuda"))
    torch.cuda.synchronize()
    if rank() == size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1000, device="cuda"))
    torch.cuda.synchronize()
    for _ in range(60):
        time.sleep(1)  # the watchdog ends the process


def run_rank(args):
    torch.cuda.set_device(0)
    bound = {"device_id": torch.device("cuda:0")} if args.what == "split" else {}
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // args.ranks))  # the references run on the CPU, of all ranks at once
    dist.init_process_group("nccl", timeout=timedelta(seconds=20 if args.what == "death" else 120), **bound)
    reference = dist.new_group(backend="gloo")
    globals()["run_" + args.what](reference)
    torch.cuda.synchronize()
    if args.what != "leave":
        dist.destroy_process_group()
    return int(bad > 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("what", choices=[name[4:] for name in globals() if name.startswith("run_") and name != "run_rank"])
    args = parser.parse_args()
    if "RANK" in os.environ:
        return run_rank(args)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(r), "WORLD_SIZE": str(args.ranks), "MASTER_ADDR": "127.0.0.1",
                                                               "MASTER_PORT": str(port), "LOCAL_RANK": "0"}) for r in range(args.ranks)]
    codes = [r.wait() for r in ranks]
    print("exit codes", codes)
    if args.what == "death":
        right = codes[-1] == -signal.SIGKILL and all(c != 0 for c in codes)
    else:
        right = not any(codes)
    if right:
        print("torch_client: all right")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())

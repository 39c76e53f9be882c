#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tables of docs/performance.md out of the rows that bench/gpu.sh left in a folder. The document has pairs of lines
    <!-- table NAME --> ... <!-- end -->
and what stands between them is replaced. Names: machine, numbers, sizes, selection, tiles, partitioned, peers, copy. Parts that were not
run leave their table as it is. Without --write the tables go to stdout. Exit status: 0, 2 files that cannot be used."""
import argparse
import re
import sys

import bench_rows as bench
import gpu_numbers as gpu


def form(value, digits=None):
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if digits is not None else f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(line) + " |" for line in lines])


def machine(parts):
    rows = [row for rows in parts.values() for row in rows]
    ours = [row for row in rows if row["backend"] != "bare"] or rows
    limits = sorted(row["limit_gbps"] for row in rows if row["limit_gbps"])
    text = f"{ours[0]['device']}; libccl commit {ours[0]['commit']}, backend {ours[0]['backend']}; "
    return text + (f"device-to-device copy {limits[0]:.0f} to {limits[-1]:.0f} GB/s (read + written)." if limits else "no limit measured.")


def numbers(parts):
    rows, lines = gpu.rows_of(parts, "sizes", "eager", "large"), []
    for number in gpu.NUMBERS:
        cells = []
        for ranks in gpu.RANKS:
            value, bare = number.measured(rows, ranks), number.bare(parts.get("bare", []), ranks)
            fraction = number.measured(rows, ranks, "fraction") if number.key == "time_us" else None
            digits = 3 if number.key == "fraction" else None
            text = "-" if value is None else f"{'**' if number.reached(value, ranks) else ''}{form(value, digits)}" + \
                ("**" if number.reached(value, ranks) else " (missed)")
            cells.append(f"{text} / {number.required[ranks]:g} / {form(bare) if number.key == 'time_us' else '-'} / "
                         f"{form(number.reference.get(ranks))} / {form(fraction, 2)}")
        lines.append([number.name, *cells])
    init = gpu.median(parts.get("init", []), "time_us", op="init", ranks=8)
    if init:
        lines.append(["communicator init, ms", "", "", f"{init / 1e3:.1f} / {gpu.INIT_US / 1e3:.0f} / - / - / -"])
    return table(["measured / must reach / bare kernels / NCCL / fraction of the limit", *(f"n={n}" for n in gpu.RANKS)], lines)


def sizes(parts):
    rows, lines = gpu.rows_of(parts, "sizes", "large", "select"), []
    for size in sorted({row["bytes_per_rank"] for row in rows if row["M"] == 1}):
        cells = []
        for buffers in ("heap", "plain"):
            for ranks in gpu.RANKS:
                want = dict(op="all_gather", ranks=ranks, bytes_per_rank=size, mode="graph", buffers=buffers, variant="auto", comm_sms=None, M=1)
                used = {row["variant_used"] for row in rows if row["variant_used"] and all(row.get(k) == v for k, v in want.items())}
                us, fraction = gpu.median(rows, "time_us", **want), gpu.median(rows, "fraction", **want)
                cells.append("-" if us is None else f"{form(us)} {'/'.join(sorted(used))} {form(fraction, 2)}")
        lines.append([bench.size_text(size), *cells])
    return table(["bytes a rank", *(f"{b}, n={n}" for b in ("heap", "plain") for n in gpu.RANKS)], lines)


def selection(parts):
    lines = [[str(ranks), buffers, bench.size_text(size), form(auto), best, form(us), f"{auto / us:.2f}"]
             for ranks, buffers, size, auto, best, us in gpu.selection(parts)]
    return table(["ranks", "buffers", "bytes a rank", "auto, us", "best forced", "us", "ratio"], lines)


def tiles(parts):
    """One line a shape and tile used; an automatic tile that equals one asked for shares its line."""
    rows = parts.get("tiles", [])
    sms = sorted({row["comm_sms"] for row in rows if row["comm_sms"]})
    groups = {}
    for row in rows:
        key = (row["ranks"], row["M"], row["N"], row["dtype"], row["bytes_per_rank"], f"{row['tile_m']}x{row['tile_n']}" if row["tile_m"] else None)
        groups.setdefault(key, {}).setdefault(row["comm_sms"], row)
    lines = []
    for (ranks, m, n, dtype, size, tile), found in sorted(groups.items(), key=lambda item: tuple(map(str, item[0]))):
        if tile is None:  # refused: no tile was used
            continue
        cells = [f"{form(found[s]['time_us'])} ({form(found[s]['fraction'], 2)})" if s in found and found[s]["time_us"] else "-" for s in sms]
        lines.append([str(ranks), f"{m}x{n}", dtype, bench.size_text(size), tile, *cells])
    return table(["ranks", "M x N", "type", "bytes a rank", "tile", *(f"{s} blocks, us (fraction)" for s in sms)], lines)


def by_column(part, column, head):
    def render(parts):
        rows = [row for row in parts.get(part, []) if row["time_us"]]
        columns = sorted({row[column] for row in rows if row[column] is not None})
        lines = []
        for ranks, size, variant in sorted({(row["ranks"], row["bytes_per_rank"], row["variant"]) for row in rows}):
            want = dict(ranks=ranks, bytes_per_rank=size, variant=variant)
            cells = [form(gpu.median(rows, "time_us", **want, **{column: value})) for value in columns]
            lines.append([str(ranks), bench.size_text(size), variant, *cells])
        return table(["ranks", "bytes a rank", "variant", *(f"{head} {value}, us" for value in columns)], lines)
    return render


TABLES = {"machine": machine, "numbers": numbers, "sizes": sizes, "selection": selection, "tiles": tiles,
          "partitioned": by_column("partitioned", "comm_sms", "comm_sms"), "peers": by_column("peers", "peers_per_wait", "peers_per_wait"),
          "copy": by_column("copy", "mode", "mode")}
NEEDS = {"numbers": ("sizes", "eager", "large"), "sizes": ("sizes", "large", "select"), "selection": ("select",)}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="results of bench/gpu.sh")
    parser.add_argument("--write", metavar="FILE", help="replace the tables of this document")
    options = parser.parse_args(arguments)
    try:
        parts = gpu.read(options.folder)
        rendered = {name: make(parts) for name, make in TABLES.items()
                    if name == "machine" or any(part in parts for part in NEEDS.get(name, (name,)))}
        if not options.write:
            print("\n\n".join(f"## {name}\n\n{text}" for name, text in rendered.items()))
            return 0
        with open(options.write, encoding="utf-8") as file:
            text = file.read()
        for name, content in rendered.items():
            text, count = re.subn(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", lambda m: m[1] + content + "\n" + m[2], text, flags=re.S)
            if count != 1:
                raise bench.BadFile(f"{options.write}: {count} places for table {name}, want 1")
        with open(options.write, "w", encoding="utf-8") as file:
            file.write(text)
    except (bench.BadFile, OSError) as error:
        print(f"gpu_doc.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

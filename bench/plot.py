#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw rows of ccl_bench: latency and bus bandwidth over bytes per rank, libccl (solid) against the baseline (dashed), and the bus
bandwidth at which plain copying would be the limit (dotted). Rows of the operation init are drawn as time over ranks.

Exit status: 0, 2 when a file or an option cannot be used or matplotlib is missing."""
import argparse
import sys

import bench_rows as bench

# What tells two curves apart, in the order of the legend; a value that all rows share is left out of the legend.
CURVE = ("ranks", "mode", "dtype", "in_place", "buffers", "variant", "comm_sms", "tile_m", "tile_n", "commit", "device")
BASELINE_CURVE = ("ranks", "mode", "in_place", "device")
MANY = 12  # curves from which the legend gets small print


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON lines of ccl_bench")
    parser.add_argument("--out", required=True, metavar="PNG", help="picture to write")
    parser.add_argument("--only", action="append", default=[], metavar="KEY=VALUE",
                        help="draw only rows with this value, e.g. --only mode=batch; may be repeated")
    parser.add_argument("--title", help="instead of device and commit")
    options = parser.parse_args(arguments)
    for filter_text in options.only:
        if "=" not in filter_text:
            parser.error(f"--only {filter_text}: not KEY=VALUE")
    return options


def select(rows, filters):
    for text in filters:
        name, value = text.split("=", 1)
        if rows and all(name not in row for row in rows):
            raise bench.BadFile(f"--only {text}: no row has the key {name}")
        rows = [row for row in rows if str(row.get(name)).lower() == value.lower()]
    rows = [row for row in rows if row["time_us"]]
    if not rows:
        raise bench.BadFile("no rows with a time are left to draw")
    return rows


def label_of(row, names, varying):
    parts = []
    for name in names:
        if name not in varying or (name == "tile_n" and "tile_m" in varying):
            continue
        value = row.get(name)
        if name == "tile_m":
            parts.append(f"tile {value}x{row.get('tile_n')}")
        elif name in ("ranks", "comm_sms"):
            parts.append(f"{'auto' if value is None else value} {'ranks' if name == 'ranks' else 'blocks'}")
        elif name == "in_place":
            parts.append("in place" if value else "out of place")
        else:
            parts.append(str(value))
    return " ".join(parts)


def varying_names(rows, names):
    """Tiles chosen by the library differ by size: they tell curves apart only where one size has several."""
    varying = {name for name in names if len({row.get(name) for row in rows}) > 1}
    if not bench.ambiguous(rows):
        varying -= {"tile_m", "tile_n"}
    return varying


def curves(rows, names, value_of):
    """List of (label, sorted sizes, values, a row of it): the median where a size was measured several times."""
    varying = varying_names(rows, names)
    found = {}
    for row in rows:
        value = value_of(row)
        if value:
            key = tuple(row.get(name) for name in names if name in varying)
            label, points, _ = found.setdefault(key, (label_of(row, names, varying), {}, row))
            points.setdefault(row["bytes_per_rank"], []).append(value)
    result = []
    for label, points, row in found.values():
        sizes = sorted(points)
        middle = [sorted(points[size])[len(points[size]) // 2] for size in sizes]
        result.append((label, sizes, middle, row))
    return result


def bus_of_baseline(row):
    if not row.get("baseline_us") or not row.get("busbw_gbps"):
        return None
    return row["busbw_gbps"] * row["time_us"] / row["baseline_us"]


def bus_of_limit(row):
    """At the limit the time is (n S + n n S) / limit, so busbw is (n - 1) S over that."""
    if not row.get("fraction") or not row.get("busbw_gbps"):
        return None
    return row["busbw_gbps"] / row["fraction"]


def named(kind, label):
    return f"{kind}, {label}" if label else kind


def draw_panel(axes, rows, value_of, baseline_of, colours):
    paired = {}  # what a baseline is measured by, to the colours of libccl's curves there
    for number, (label, sizes, values, row) in enumerate(curves(rows, CURVE, value_of)):
        colour = colours[number % len(colours)]
        paired.setdefault(bench.key(row, BASELINE_CURVE), []).append(colour)
        axes.plot(sizes, values, "-o", color=colour, markersize=4, linewidth=1.8, label=named("libccl", label))
    compared = [row for row in rows if row.get("baseline")]
    greys = ["0.15", "0.45", "0.65"]
    marks = ["s", "^", "v", "D"]
    for number, (label, sizes, values, row) in enumerate(curves(compared, BASELINE_CURVE, baseline_of)):
        partners = paired.get(bench.key(row, BASELINE_CURVE), [])
        # The colour of its counterpart where it has one only; a lone pair is plainer in black.
        colour = partners[0] if len(partners) == 1 and len(paired) > 1 else greys[number % len(greys)]
        axes.plot(sizes, values, "--" + marks[number % len(marks)], color=colour, markersize=4, linewidth=1.3,
                  label=named("MPI", label))


def dress(axes, sizes, title, unit):
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(title, fontsize=12)
    axes.set_xlabel("bytes per rank")
    axes.set_ylabel(unit)
    ticks = sorted(sizes)
    ticks = ticks[:: max(1, (len(ticks) + 9) // 10)]
    axes.set_xticks(ticks)
    axes.set_xticklabels([bench.size_text(size) for size in ticks])
    axes.minorticks_off()
    axes.grid(True, which="major", color="0.88")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def title_of(rows):
    devices = sorted({str(row.get("device")) for row in rows})
    commits = sorted({str(row.get("commit")) for row in rows})
    ranks = sorted({row["ranks"] for row in rows})
    return (f"{rows[0]['op']}, {', '.join(map(str, ranks))} ranks, backend "
            f"{', '.join(sorted({str(row.get('backend')) for row in rows}))}\n{'; '.join(devices)}; commit {', '.join(commits)}")


def draw_sizes(pyplot, rows, options):
    colours = pyplot.get_cmap("tab10").colors
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(14, 6.5))
    sizes = {row["bytes_per_rank"] for row in rows}
    draw_panel(left, rows, lambda row: row["time_us"], lambda row: row.get("baseline_us"), colours)
    draw_panel(right, rows, lambda row: row.get("busbw_gbps"), bus_of_baseline, colours)
    styles = (":", "-.", (0, (1, 3)), (0, (5, 2, 1, 2, 1, 2)))
    for number, (label, at, values, _) in enumerate(curves(rows, ("ranks", "device"), bus_of_limit)):
        right.plot(at, values, linestyle=styles[number % len(styles)], color="firebrick", linewidth=2,
                   label=named("plain copy limit", label))
    dress(left, sizes, "latency, median of the slowest rank", "microseconds")
    dress(right, sizes, "bus bandwidth, (n - 1) S / time", "GB/s (10^9 bytes)")
    # One legend for both panels, below them, so that it hides no data.
    entries = {}
    for axes in (left, right):
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    columns = min(4, max(1, len(entries)))
    lines = -(-len(entries) // columns)
    size = 10 if len(entries) <= MANY else 8
    bottom = min(0.5, 0.02 + 0.032 * lines * size / 10)
    figure.suptitle(options.title or title_of(rows), fontsize=12)
    figure.tight_layout(rect=(0, bottom, 1, 1))
    figure.legend(entries.values(), entries.keys(), loc="lower center", ncol=columns, fontsize=size, frameon=False)
    return figure


def draw_init(pyplot, rows, options):
    figure, axes = pyplot.subplots(figsize=(8, 5.5))
    points = {}
    for row in rows:
        points.setdefault(row["ranks"], []).append(row["time_us"] / 1e3)
    ranks = sorted(points)
    times = [sorted(points[n])[len(points[n]) // 2] for n in ranks]
    axes.plot(ranks, times, "-o", linewidth=1.8, label="communicator init")
    axes.plot(ranks, [times[0] * n / ranks[0] for n in ranks], ":", color="0.4", label="proportional to ranks")
    dress(axes, ranks, "communicator init, median of the slowest rank", "milliseconds")
    axes.set_xlabel("ranks")
    axes.legend(frameon=False)
    figure.suptitle(options.title or title_of(rows), fontsize=11)
    figure.tight_layout()
    return figure


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        rows = select([row for path in options.files for row in bench.read(path)], options.only)
    except bench.BadFile as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        print(f"plot.py: matplotlib is missing for {sys.executable} (Debian: python3-matplotlib): {error}", file=sys.stderr)
        return 2
    moving = [row for row in rows if row.get("bytes_per_rank")]
    figure = draw_sizes(pyplot, moving, options) if moving else draw_init(pyplot, rows, options)
    try:
        figure.savefig(options.out, dpi=120, format="png")
    except OSError as error:
        print(f"plot.py: {options.out}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

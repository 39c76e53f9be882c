# SPDX-License-Identifier: MIT
"""Rows of ccl_bench (one JSON object a line): reading, grouping, medians. Used by compare.py, numbers_check.py and plot.py."""
import json
import statistics

# What makes two rows the same measurement. Tiles and blocks are the library's answer unless they were asked for, so they count
# only where one file holds several of them (see group).
IDENTITY = ("op", "backend", "ranks", "M", "N", "K", "dtype", "bytes_per_rank", "in_place", "mode", "buffers", "comm_sms",
            "variant", "algorithm")
TUNING = ("tile_m", "tile_n", "peers_per_wait")


class BadFile(Exception):
    """A file that cannot be read as rows; the text says where and why."""


def read(path):
    rows = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise BadFile(f"{path}:{number}: not a JSON object: {error}") from error
                if not isinstance(row, dict) or "op" not in row or "time_us" not in row:
                    raise BadFile(f"{path}:{number}: not a row of ccl_bench (no op or time_us)")
                rows.append(row)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: {error}") from error
    if not rows:
        raise BadFile(f"{path}: no rows")
    return rows


def key(row, names=IDENTITY):
    return tuple(row.get(name) for name in names)


def ambiguous(rows):
    """Identities under which one file holds several tunings, so that the tuning must tell the rows apart."""
    seen = {}
    for row in rows:
        if row["time_us"] is not None:
            seen.setdefault(key(row), set()).add(key(row, TUNING))
    return {identity for identity, tunings in seen.items() if len(tunings) > 1}


def group(rows, split=()):
    """Dict from identity (with the tuning for those in split) to the rows measured under it, in the file's order."""
    groups = {}
    for row in rows:
        identity = key(row)
        if identity in split:
            identity += key(row, TUNING)
        groups.setdefault(identity, []).append(row)
    return groups


def values(rows, name):
    return [row[name] for row in rows if isinstance(row.get(name), (int, float)) and not isinstance(row[name], bool)]


def median(rows, name):
    found = values(rows, name)
    return statistics.median(found) if found else None


def noise_percent(rows, name):
    """Spread of repeated measurements, (largest - smallest) / median, in percent; None for a single one."""
    found = values(rows, name)
    if len(found) < 2:
        return None
    middle = statistics.median(found)
    return 100 * (max(found) - min(found)) / middle if middle else None


def size_text(count):
    if count is None:
        return "-"
    for shift, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift}{suffix}"
    return str(count)


def parse_size(text):
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    digits = text[:-1] if shift else text
    if not digits.isdigit():
        raise ValueError(f"'{text}' is not a size")
    return int(digits) << shift

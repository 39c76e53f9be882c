#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that the table of docs/env.md says what src/util/config.def says: the same variables, defaults, ranges and texts.

Usage: check_env_doc.py ROOT [--write]     --write puts the table of config.def into docs/env.md
"""
import re
import sys
from pathlib import Path

HEADER = ["| variable | default | values | meaning |", "| --- | --- | --- | --- |"]


def rows(text):
    """The table's lines, from the rows of config.def."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    string = r'"((?:[^"\\]|\\.)*)"'
    item = r"\s*([^,]+?)\s*"
    pattern = re.compile(rf'CCL_ENV_(STR)\(\w+,\s*{string},\s*(?:{string}|NULL),\s*{string}\)'
                         rf'|CCL_ENV_(INT)\(\w+,\s*{string},{item},{item},{item},\s*{string}\)')
    out = []
    for m in pattern.finditer(text):
        if m.group(1):
            name, default, values, meaning = m.group(2), m.group(3), "text", m.group(4)
        else:
            name, default, meaning = m.group(6), m.group(7), m.group(10)
            default = None if default == "CCL_UNSET" else default
            values = f"{m.group(8)} to {m.group(9)}"
        shown = "unset" if default is None else f"`{default}`"
        out.append(f"| `{name}` | {shown} | {values} | {meaning} |")
    if len(out) != len(re.findall(r"CCL_ENV_(?:STR|INT)\(", text)):
        sys.exit("config.def has a row that check_env_doc.py cannot read")
    return out


def main():
    root = Path(sys.argv[1])
    doc = root / "docs/env.md"
    want = rows((root / "src/util/config.def").read_text())
    lines = doc.read_text().splitlines()
    table = [i for i, line in enumerate(lines) if line.startswith("|")]
    if sys.argv[2:] == ["--write"]:
        doc.write_text("\n".join(lines[:table[0]] + HEADER + want + lines[table[-1] + 1:]) + "\n")
        return 0
    got = [lines[i] for i in table][len(HEADER):]
    for line in want:
        if line not in got:
            print(f"docs/env.md lacks: {line}")
    for line in got:
        if line not in want:
            print(f"docs/env.md has what config.def has not: {line}")
    if want != got:
        print("run: python3 tests/check_env_doc.py . --write")
    print(f"{len(want)} variables in config.def, {len(got)} in docs/env.md")
    return int(want != got or not want)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
"""Proves that gpu_check.py fails each number that is missed, wrong bytes and a bad automatic choice, and nothing else, and that gpu_doc.py
writes what was measured into the document's own places."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from test_bench_tools import BENCH, Files, make_row  # noqa: E402

import gpu_check  # noqa: E402
import gpu_doc  # noqa: E402
import gpu_numbers as gpu  # noqa: E402


def rows_that_reach(factor=1.0, changed=None):
    """A row for every number, at factor times what is required; of the number `changed` alone at 1.2 times the worse."""
    rows = []
    for number in gpu.NUMBERS:
        for ranks in gpu.RANKS:
            value = number.required[ranks]
            worse = 1.2 if number is changed else factor
            value = value / worse if number.more_is_better else value * worse
            match = dict({"backend": "gpu", "ranks": ranks, "limit_gbps": 4000.0, "fraction": 0.5}, **number.match)
            rows.append(make_row(number.bytes_of(ranks), **dict({"time_us": 1e-3, "host_us": None, "fraction": None}, **match)))
            for key in ("time_us", "fraction", "host_us"):
                if key != number.key and key != "time_us":
                    rows[-1][key] = None
            rows[-1][number.key] = value
            if number.key != "time_us":
                rows[-1]["time_us"] = None if number.key == "host_us" else 5.0
            rows[-1]["errors"] = 0
    return rows


class Gpu(Files):
    def folder_of(self, rows, **more):
        for part, content in dict({"sizes": rows}, **more).items():
            for ranks in gpu.RANKS:
                mine = [row for row in content if row["ranks"] == ranks]
                self.write(f"{part}.n{ranks}.json", mine)
        return self.folder.name

    def test_all_reached(self):
        status, out, _ = self.run_tool(gpu_check, self.folder_of(rows_that_reach()))
        self.assertEqual(status, 0, out)
        self.assertNotIn("FAIL", out)
        self.assertEqual(out.count("PASS"), 3 * len(gpu.NUMBERS))

    def test_tolerance(self):
        self.assertEqual(self.run_tool(gpu_check, self.folder_of(rows_that_reach(1.045)))[0], 0)
        self.assertEqual(self.run_tool(gpu_check, self.folder_of(rows_that_reach(1.06)))[0], 1)

    def test_each_number_counts(self):
        for number in gpu.NUMBERS:
            status, out, _ = self.run_tool(gpu_check, self.folder_of(rows_that_reach(changed=number)))
            self.assertEqual(status, 1, number.name)
            self.assertEqual(out.count(" FAIL"), 4, f"{number.name}\n{out}")
            self.assertIn("3 FAIL", out)

    def test_wrong_bytes(self):
        rows = rows_that_reach()
        rows[0]["errors"] = 1
        status, out, _ = self.run_tool(gpu_check, self.folder_of(rows))
        self.assertEqual(status, 1)
        self.assertIn("1 wrong bytes", out)

    def test_ratio_to_bare(self):
        bare = [make_row(8, gpu.NUMBERS[0].required[ranks] / 2, backend="bare", ranks=ranks, mode="graph") for ranks in gpu.RANKS]
        out = self.run_tool(gpu_check, self.folder_of(rows_that_reach(), bare=bare))[1]
        self.assertEqual(out.count("x2.00"), 3)

    def test_init(self):
        for us, want in ((0.9e6, 0), (1.1e6, 1)):
            rows = [make_row(None, us, op="init", backend="gpu", ranks=ranks) for ranks in gpu.RANKS]
            self.assertEqual(self.run_tool(gpu_check, self.folder_of(rows_that_reach(), init=rows))[0], want)

    def select_rows(self, auto):
        rows = []
        for ranks in gpu.RANKS:
            for variant, us in (("auto", auto), ("ll", 12.0), ("direct", 10.0), ("copy", 1.0)):
                rows.append(make_row(4096, us, backend="gpu", ranks=ranks, mode="graph", variant=variant))
        return rows

    def test_selection(self):
        for auto, want in ((10.9, 0), (11.1, 1)):
            status, out, _ = self.run_tool(gpu_check, self.folder_of(rows_that_reach(), select=self.select_rows(auto)))
            self.assertEqual(status, want, out)
        self.assertIn("4K heap: auto 11.10 us, direct 10.00 us", out)

    def test_bad_folder(self):
        status, _, err = self.run_tool(gpu_check, self.path("absent"))
        self.assertEqual(status, 2)
        self.assertIn("absent", err)

    def test_document(self):
        with open(os.path.join(BENCH, "..", "docs", "performance.md"), encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(?<=<!-- table peers -->\n).*?(?=<!-- end -->)", "Not measured yet.\n", text, flags=re.S)  # this one must stay as it is
        document = self.write("doc.md", [text.rstrip("\n")])
        tiles = [make_row(8192, 20.0 + sms, backend="gpu", ranks=2, M=4, N=1024, dtype="fp16", comm_sms=sms, mode="graph") for sms in (8, 16)]
        for ranks in (4, 8):
            tiles.append(make_row(8192, None, backend="gpu", ranks=ranks, M=4, N=1024, comm_sms=128, tile_m=None, tile_n=None))
        folder = self.folder_of(rows_that_reach(changed=gpu.NUMBERS[1]), select=self.select_rows(10.5), tiles=tiles)
        for _ in range(2):  # the second time over its own output
            status, _, err = self.run_tool(gpu_doc, folder, "--write", document)
            self.assertEqual(status, 0, err)
        with open(document, encoding="utf-8") as file:
            made = file.read()
        self.assertIn("| graph, 8 B | **2.10** / 2.1 / - / 3.40 / - |", made)
        self.assertIn("2.76 (missed) / 2.3", made)
        self.assertIn("| 2 | heap | 4K | 10.5 | direct | 10.0 | 1.05 |", made)
        self.assertIn("| 2 | 4x1024 | fp16 | 8K | 1x4096 | 28.0 (-) | 36.0 (-) | - |", made)
        self.assertIn("<!-- table peers -->\nNot measured yet.\n<!-- end -->", made)
        self.assertEqual(made.count("<!-- table"), text.count("<!-- table"))
        status, _, err = self.run_tool(gpu_doc, folder, "--write", self.write("none.md", ["no places"]))
        self.assertEqual(status, 2)
        self.assertIn("places for table", err)


if __name__ == "__main__":
    unittest.main(verbosity=1)

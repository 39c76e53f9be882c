# SPDX-License-Identifier: MIT
"""Proves that compare.py flags what got worse and nothing else, that numbers_check.py fails a missed or missing number, and that plot.py
draws the right values (skipped without matplotlib)."""
import contextlib
import importlib.util
import io
import json
import os
import struct
import sys
import tempfile
import unittest
import zlib

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True

import bench_rows  # noqa: E402
import compare  # noqa: E402
import multigpu_check  # noqa: E402
import numbers_check  # noqa: E402
import plot  # noqa: E402

HAVE_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def make_row(size=64, time_us=10.0, **changes):
    ranks = changes.get("ranks", 2)
    busbw = (ranks - 1) * size / time_us * 1e-3 if size and time_us else None
    row = {"op": "all_gather", "backend": "host", "device": "a machine", "commit": "abc", "ranks": ranks, "M": 1, "N": size,
           "K": None, "dtype": "uint8", "bytes_per_rank": size, "in_place": False, "mode": "eager", "buffers": "heap",
           "comm_sms": None, "blocks": 1, "variant": "auto", "variant_used": "ll", "tile_m": 1, "tile_n": 4096,
           "peers_per_wait": 1, "algorithm": None, "time_us": time_us, "min_us": time_us, "p99_us": time_us, "skew_us": 0.1,
           "algbw_gbps": None, "busbw_gbps": busbw, "host_us": 0.05, "limit_gbps": None, "fraction": None, "baseline": "mpi",
           "baseline_us": 3 * time_us if time_us else None, "ratio": 3.0 if time_us else None, "errors": 0 if time_us else None}
    row.update(changes)
    return row


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, rows):
        with open(self.path(name), "w", encoding="utf-8") as file:
            for row in rows:
                file.write((row if isinstance(row, str) else json.dumps(row)) + "\n")
        return self.path(name)

    def run_tool(self, tool, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = tool.main(list(arguments))
            except SystemExit as leaving:  # argparse
                status = leaving.code
        return status, out.getvalue(), err.getvalue()


class Compare(Files):
    def judge(self, a, b, *options):
        return self.run_tool(compare, self.write("a.json", a), self.write("b.json", b), *options)

    def expect(self, status, verdict, a, b, *options):
        got, out, err = self.judge(a, b, *options)
        self.assertEqual(got, status, out + err)
        self.assertIn(verdict, out)
        return out

    def test_equal_files(self):
        self.expect(0, "same", [make_row()], [make_row()])

    def test_latency_threshold(self):
        self.expect(1, "REGRESSION", [make_row(time_us=10)], [make_row(time_us=11.6)])
        self.expect(0, "same", [make_row(time_us=10)], [make_row(time_us=11.4)])
        self.expect(0, "better", [make_row(time_us=10)], [make_row(time_us=8)])
        self.expect(1, "REGRESSION", [make_row(time_us=10)], [make_row(time_us=11.4)], "--latency", "10")

    def test_bandwidth_threshold(self):
        size = 4 << 20
        self.expect(1, "REGRESSION", [make_row(size, 1000)], [make_row(size, 1060)])
        self.expect(0, "same", [make_row(size, 1000)], [make_row(size, 1040)])
        self.expect(1, "REGRESSION", [make_row(size, 1000)], [make_row(size, 1040)], "--bandwidth", "3")
        self.expect(0, "same", [make_row(size, 1000)], [make_row(size, 1100)], "--bandwidth-from", "8M")
        out = self.expect(1, "busbw_gbps", [make_row(1 << 20, 1000)], [make_row(1 << 20, 1100)])
        self.assertIn("REGRESSION", out)

    def test_noise_stands_beside_the_medians(self):
        quiet = [make_row(time_us=t) for t in (10.0, 10.1, 9.9)]
        self.expect(1, "REGRESSION", quiet, [make_row(time_us=t) for t in (12.0, 12.1, 11.9)])
        out = self.expect(0, "noise", quiet, [make_row(time_us=t) for t in (12.0, 15.0, 9.9)])
        self.assertIn("42.5", out)  # (15 - 9.9) / 12

    def test_median_of_repeats(self):
        self.expect(0, "same", [make_row(time_us=t) for t in (10, 10, 50)], [make_row(time_us=t) for t in (10, 10, 10)])

    def test_rows_are_told_apart(self):
        a = [make_row(64), make_row(64, mode="batch", time_us=1), make_row(64, ranks=4, time_us=20)]
        b = [make_row(64, ranks=4, time_us=20), make_row(64), make_row(64, mode="batch", time_us=2)]
        out = self.expect(1, "REGRESSION", a, b)
        self.assertIn("3 rows, 1 flagged", out)

    def test_tiles_of_a_sweep_are_told_apart(self):
        a = [make_row(tile_m=1, tile_n=64, time_us=5), make_row(tile_m=32, tile_n=64, time_us=50)]
        out = self.expect(1, "32x64", a, [a[0], make_row(tile_m=32, tile_n=64, time_us=60)])
        self.assertIn("2 rows, 1 flagged", out)

    def test_another_choice_of_the_library_is_the_same_row(self):
        out = self.expect(0, "same", [make_row(tile_n=64, blocks=1)], [make_row(tile_n=128, blocks=8, variant_used="direct")])
        self.assertIn("1 rows, 0 flagged", out)

    def test_missing_new_and_failing(self):
        two = [make_row(8), make_row(16)]
        self.expect(1, "MISSING", two, two[:1])
        self.expect(0, "missing", two, two[:1], "--allow-missing")
        self.expect(0, "new", two[:1], two)
        self.expect(1, "FAILS", [make_row()], [make_row(time_us=None)])
        self.expect(0, "no numbers", [make_row(time_us=None)], [make_row(time_us=None)])

    def test_wrong_bytes(self):
        self.expect(1, "WRONG BYTES", [make_row()], [make_row(errors=1)])

    def test_by_ratio(self):
        a, b = [make_row(time_us=10, ratio=3.0)], [make_row(time_us=20, ratio=3.0)]
        self.expect(0, "same", a, b, "--by", "ratio")
        self.expect(1, "REGRESSION", a, [make_row(time_us=10, ratio=2.0)], "--by", "ratio")

    def test_only_changes(self):
        out = self.expect(1, "REGRESSION", [make_row(8), make_row(16)], [make_row(8), make_row(16, time_us=20)], "--only-changes")
        self.assertNotIn(" same", out)

    def test_bad_files(self):
        good = [make_row()]
        for bad, text in ((["{"], "b.json:1: not a JSON object"), (["[1]"], "not a row"), ([], "no rows")):
            status, _, err = self.judge(good, bad)
            self.assertEqual(status, 2)
            self.assertIn(text, err)
        status, _, err = self.run_tool(compare, self.write("a.json", good), self.path("absent"))
        self.assertEqual(status, 2)
        self.assertIn("absent", err)

    def test_bad_options(self):
        for options in (("--latency", "-1"), ("--bandwidth-from", "x"), ("--latency", "much"), ("--nonsense",)):
            status, _, err = self.judge([make_row()], [make_row()], *options)
            self.assertEqual(status, 2)
            self.assertIn(options[0], err)

    def test_other_device_is_named(self):
        _, _, err = self.judge([make_row()], [make_row(device="another")])
        self.assertIn("another", err)


def promised_rows():
    """Rows that meet every number, just so."""
    rows = []
    for ranks, low, high, mode, _, _ in numbers_check.RATIOS:
        size = low
        while size <= min(high, 64 << 20):
            need = [r for n, lo, hi, m, r, _ in numbers_check.RATIOS if n == ranks and m == mode and lo <= size <= hi]
            rows.append(make_row(size, ranks=ranks, mode=mode, ratio=max(need), host_us=0.09))
            size *= 2
    for ranks in (2, 4, 8, 16, 32, 64):
        rows.append(make_row(None, 40e3 * ranks / 8, op="init", ranks=ranks, ratio=None, mode=None))
    return rows


class Numbers(Files):
    def check(self, rows):
        return self.run_tool(numbers_check, self.write("n.json", rows))

    def test_all_met(self):
        status, out, _ = self.check(promised_rows())
        self.assertEqual(status, 0, out)
        self.assertNotIn("FAIL", out)

    def test_every_ratio_is_judged(self):
        for number, (ranks, low, high, mode, required, _) in enumerate(numbers_check.RATIOS):
            rows = promised_rows()
            for row in rows:
                if row["ranks"] == ranks and row["mode"] == mode and row["bytes_per_rank"] == low:
                    row["ratio"] = required - 0.01
            status, out, _ = self.check(rows)
            self.assertEqual(status, 1, out)
            self.assertIn("FAIL", out.splitlines()[3 + number])
            self.assertIn(bench_rows.size_text(low), out.splitlines()[3 + number])

    def test_every_class_must_be_measured(self):
        for number, (ranks, low, high, mode, _, _) in enumerate(numbers_check.RATIOS):
            rows = [row for row in promised_rows() if row["op"] == "init" or not
                    (row["ranks"] == ranks and row["mode"] == mode and low <= row["bytes_per_rank"] <= high)]
            status, out, _ = self.check(rows)
            self.assertEqual(status, 1, out)
            self.assertIn("not measured", out.splitlines()[3 + number])

    def test_init(self):
        for ranks, us, text in ((8, 51e3, "under 50 ms"), (64, 2.1e6, "under 2000 ms"), (64, 50e3 * 64 * 1.1, "grows")):
            rows = promised_rows()
            for row in rows:
                if row["op"] == "init" and row["ranks"] == ranks:
                    row["time_us"] = us
            status, out, _ = self.check(rows)
            self.assertEqual(status, 1, out)
            self.assertTrue(any(text in line and "FAIL" in line for line in out.splitlines()), out)
        status, out, _ = self.check([row for row in promised_rows() if row["op"] != "init"])
        self.assertEqual(status, 1)

    def test_enqueue_errors_and_failed_rows(self):
        for change in ({"host_us": 0.11}, {"errors": 1}, {"time_us": None, "ratio": None}):
            rows = promised_rows()
            next(row for row in rows if row["mode"] == "batch").update(change)
            status, out, _ = self.check(rows)
            self.assertEqual(status, 1, out)
            self.assertIn("FAIL", out)

    def test_repeats_count_with_their_median(self):
        rows = promised_rows()
        slow = dict(next(row for row in rows if row["ranks"] == 8 and row["bytes_per_rank"] == 8), ratio=0.1)
        status, out, _ = self.check(rows + rows + [slow])
        self.assertEqual(status, 0, out)


def png_size(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    width, height = struct.unpack(">II", data[16:24])
    chunks, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        chunks += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return width, height, len(set(zlib.decompress(chunks)))


def several_gpus(ranks):
    """Rows in which every number of several GPUs is just reached, and NCCL is no faster."""
    return [make_row(size, required if key == "time_us" else (ranks - 1) * size / required * 1e-3, **dict(want, backend="gpu", ranks=ranks, ratio=1.0,
                     baseline="nccl 2.28.9", baseline_us=required if key == "time_us" else (ranks - 1) * size / required * 1e-3))
            for _, size, key, required, want in multigpu_check.REQUIRED[ranks]]


class SeveralGpus(Files):
    def check(self, rows):
        self.write("sweep.n2.json", rows)
        return self.run_tool(multigpu_check, self.folder.name)

    def test_all_met(self):
        for ranks in multigpu_check.REQUIRED:
            status, out, _ = self.check(several_gpus(ranks))
            self.assertEqual((status, out.count("PASS")), (0, len(multigpu_check.REQUIRED[ranks])), out)

    def test_every_number_is_judged(self):
        for ranks, numbers in multigpu_check.REQUIRED.items():
            for number in range(len(numbers)):
                rows = several_gpus(ranks)
                for name in ("time_us", "baseline_us"):
                    rows[number][name] *= 1.2
                rows[number]["busbw_gbps"] /= 1.2
                status, out, _ = self.check(rows)
                self.assertEqual((status, out.count("PASS"), out.count(" FAIL\n")), (1, len(numbers) - 1, 2), out)

    def test_nccl_must_not_be_faster(self):
        for change, status in (({}, 1), ({"buffers": "plain"}, 0), ({"comm_sms": 16, "baseline": None, "baseline_us": None}, 0)):
            self.assertEqual(self.check([make_row(4 << 20, 100.0, **dict({"mode": "graph", "baseline_us": 90.0}, **change))])[0], status, change)

    def test_wrong_bytes_and_files(self):
        rows = several_gpus(2)
        rows[0]["errors"] = 3
        self.assertEqual(self.check(rows)[0], 1)
        self.assertEqual(self.run_tool(multigpu_check, self.path("absent"))[0], 2)


class Plot(Files):
    def test_limit_and_baseline_in_bus_bandwidth(self):
        # 2 ranks, S = 1 MB in 100 us: busbw 10 GB/s; traffic 2 S + 4 S in 100 us is 60 GB/s, half of a limit of 120.
        row = make_row(1000000, 100.0, baseline_us=200.0, limit_gbps=120.0, fraction=0.5)
        self.assertAlmostEqual(row["busbw_gbps"], 10)
        self.assertAlmostEqual(plot.bus_of_limit(row), 20)
        self.assertAlmostEqual(plot.bus_of_baseline(row), 5)
        self.assertIsNone(plot.bus_of_limit(make_row()))
        self.assertIsNone(plot.bus_of_baseline(make_row(baseline_us=None)))

    def test_curves(self):
        rows = [make_row(size, time, mode=mode) for mode, time in (("eager", 2.0), ("batch", 1.0)) for size in (64, 8)]
        rows += [make_row(8, 9.0, mode="batch"), make_row(8, 3.0, mode="batch")]
        found = plot.curves(rows, plot.CURVE, lambda row: row["time_us"])
        self.assertEqual([(label, sizes, values) for label, sizes, values, _ in found],
                         [("eager", [8, 64], [2.0, 2.0]), ("batch", [8, 64], [3.0, 1.0])])

    def test_tiles_chosen_by_the_library_do_not_split_a_curve(self):
        rows = [make_row(8, tile_n=64), make_row(16, tile_n=128)]
        self.assertEqual(len(plot.curves(rows, plot.CURVE, lambda row: row["time_us"])), 1)
        rows = [make_row(8, tile_n=64), make_row(8, tile_n=128)]
        self.assertEqual(len(plot.curves(rows, plot.CURVE, lambda row: row["time_us"])), 2)

    def test_selection(self):
        rows = [make_row(8), make_row(8, mode="batch"), make_row(8, None)]
        self.assertEqual(plot.select(rows, ["mode=batch"]), [rows[1]])
        self.assertEqual(plot.select(rows, ["in_place=false"]), rows[:2])
        with self.assertRaisesRegex(bench_rows.BadFile, "no row has the key moda"):
            plot.select(rows, ["moda=batch"])
        with self.assertRaisesRegex(bench_rows.BadFile, "no rows"):
            plot.select(rows[2:], [])

    @unittest.skipUnless(HAVE_MATPLOTLIB, "no matplotlib")
    def test_pictures(self):
        rows = [make_row(1 << i, 1.0 + (1 << i) / 1e4, mode=mode, variant=variant) for i in range(3, 24)
                for mode in ("eager", "batch") for variant in ("auto", "direct", "staged")]
        rows[-1].update(limit_gbps=50.0, fraction=0.5)
        init = [make_row(None, 1e3 * n, op="init", ranks=n, mode=None) for n in (2, 4, 8)]
        for name, content in (("sizes", rows), ("init", init)):
            out = self.path(name + ".png")
            status, _, err = self.run_tool(plot, self.write(name, content), "--out", out)
            self.assertEqual(status, 0, err)
            width, height, values = png_size(out)
            self.assertGreater(width, 600)
            self.assertGreater(height, 400)
            self.assertGreater(values, 50, "the picture is empty")

    @unittest.skipUnless(HAVE_MATPLOTLIB, "no matplotlib")
    def test_what_is_drawn(self):
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
        rows = [make_row(1 << i, float(i), limit_gbps=9.0, fraction=0.1) for i in range(3, 24)]
        options = plot.parse_arguments(["x", "--out", "y"])
        figure = plot.draw_sizes(pyplot, rows, options)
        left, right = figure.axes
        self.assertEqual([line.get_label() for line in left.lines], ["libccl", "MPI"])
        self.assertEqual([line.get_label() for line in right.lines], ["libccl", "MPI", "plain copy limit"])
        self.assertEqual(list(left.lines[0].get_ydata()), [float(i) for i in range(3, 24)])
        self.assertEqual(list(left.lines[1].get_ydata()), [3.0 * i for i in range(3, 24)])
        self.assertEqual((left.get_xscale(), left.get_yscale(), right.get_yscale()), ("log", "log", "log"))
        figure.canvas.draw()
        # The legend hides no axes and stays in the picture.
        box = figure.legends[0].get_window_extent()
        for axes in figure.axes:
            self.assertFalse(box.overlaps(axes.get_tightbbox(figure.canvas.get_renderer())))
        self.assertGreaterEqual(box.y0, 0)

    def test_bad_use(self):
        status, _, err = self.run_tool(plot, self.path("absent"), "--out", self.path("p.png"))
        self.assertEqual(status, 2)
        self.assertIn("absent", err)
        status, _, err = self.run_tool(plot, self.write("a", [make_row()]), "--out", self.path("p.png"), "--only", "mode")
        self.assertEqual(status, 2)
        self.assertIn("--only mode", err)


class Sizes(unittest.TestCase):
    def test_there_and_back(self):
        for size, text in ((8, "8"), (1024, "1K"), (1536, "1536"), (3 << 20, "3M"), (1 << 30, "1G")):
            self.assertEqual(bench_rows.size_text(size), text)
            self.assertEqual(bench_rows.parse_size(text), size)


if __name__ == "__main__":
    unittest.main(verbosity=1)

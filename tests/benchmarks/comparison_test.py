"""The comparison of two engines: which shapes count, medians, ratios, the order of runs, the rows of
the JSON file, and what happens when an engine fails or cannot run a model.

usage: comparison_test.py <benchmarks folder>
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BENCHMARKS = sys.argv[1]
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(BENCHMARKS, "peers"), BENCHMARKS]
import comparison  # noqa: E402
import machine  # noqa: E402
import make_model  # noqa: E402

GROUPS = [comparison.Group((512, 512, 1024), (1,), 1, prefill=True, decode=False),
          comparison.Group((128,), (1, 1, 8), 64)]


class Engine:
    """Answers with a speed for each run, the same for all its shapes but the first, which is far off."""

    def __init__(self, name, log, speeds):
        self.name, self._log, self._speeds = name, log, list(speeds)

    def version(self):
        return self.name

    def running(self):
        return []

    def run(self, _model, group, threads):
        self._log.append(self.name)
        speed = self._speeds.pop(0)
        if isinstance(speed, Exception):
            raise speed
        return [comparison.Speeds(1e9, 1e9)] + [comparison.Speeds(speed * threads, speed * 10 * threads)
                                               for _ in group.shapes()[1:]]


class ComparisonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = Path(cls.folder.name) / "tiny.gguf"
        make_model.make(cls.model, "tiny", "Q4_K_M")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compare(self, ours, theirs, repeats=3):
        """Runs GROUPS; leaves the rows, the printed table and the order of the runs in self."""
        out = Path(self.folder.name) / "rows.json"
        out.unlink(missing_ok=True)
        arguments = argparse.Namespace(build=Path("no"), isa=None, quick=False, repeats=repeats,
                                       threads=2, calm=None, json=out)
        self.order, printed = [], io.StringIO()
        one = comparison.Comparison(Engine("peer", self.order, theirs), arguments, [self.model])
        one._quire = Engine("quire", self.order, ours)
        one._read_bandwidth = lambda: 20.0
        groups = comparison.ALL_GROUPS
        comparison.ALL_GROUPS = GROUPS
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(printed):
                one.run()
                self.good = one.report()
        finally:
            comparison.ALL_GROUPS = groups
        self.rows = json.loads(out.read_text())
        self.table = printed.getvalue()

    def test_rows_are_medians_in_turn(self):
        # Of each engine one speed for each group in each repeat.
        self.compare([6, 6, 9, 9, 3, 3], [2, 4, 2, 2, 4, 2])
        self.assertTrue(self.good)
        self.assertEqual(self.order, ["peer", "quire"] * 2 + ["quire", "peer"] * 2 + ["peer", "quire"] * 2)
        common = {"model": "tiny", "weights": "Q4_K_M", "threads": 2}
        self.assertEqual(self.rows, [
            {**common, "metric": "prefill", "tokens": 512, "sequences": 1, "context": 0,
             "quire": 12.0, "peer": 4.0, "ratio": 3.0},
            {**common, "metric": "prefill", "tokens": 1024, "sequences": 1, "context": 0,
             "quire": 12.0, "peer": 4.0, "ratio": 3.0},
            {**common, "metric": "decode", "tokens": 64, "sequences": 1, "context": 128,
             "quire": 120.0, "peer": 40.0, "ratio": 3.0},
            {**common, "metric": "decode", "tokens": 64, "sequences": 8, "context": 128,
             "quire": 120.0, "peer": 40.0, "ratio": 3.0}])
        self.assertIn("| decode, 8 sequences, 128 + 64 | 120.0 | 40.0 | 3.00 |", self.table)

    def test_failed_runs_are_reported_and_left_out(self):
        self.compare([6, 6], [2, RuntimeError("exit status 9")], repeats=1)
        self.assertFalse(self.good)
        self.assertEqual({row["metric"] for row in self.rows}, {"prefill"})
        self.assertIn("failed: peer, tiny.gguf: exit status 9", self.table)

    def test_model_that_the_peer_cannot_run(self):
        self.compare([6, 6], [comparison.Unsupported("no such type")], repeats=2)
        self.assertTrue(self.good)
        self.assertEqual(self.rows, [])
        self.assertEqual(self.order, ["peer"])
        self.assertIn("peer cannot run tiny.gguf: no such type", self.table)

    def test_shapes_longer_than_the_model_allows_are_skipped(self):
        long = [comparison.Group((4096, 4096), (1,), 64)]  # the model has 4096 tokens of context
        groups, self.order = comparison.ALL_GROUPS, []
        GROUPS.append(long[0])
        try:
            self.compare([6, 6], [2, 2], repeats=1)
        finally:
            GROUPS.pop()
        self.assertIs(comparison.ALL_GROUPS, groups)
        self.assertEqual(len(self.rows), 4)


class LoadTest(unittest.TestCase):
    def test_own_processes_are_no_others(self):
        before = machine._snapshot([])
        if before is None:
            self.skipTest("no /proc/stat")
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            listed, unlisted, deadline = 0, 0, time.monotonic() + 60
            while listed <= unlisted and time.monotonic() < deadline:
                time.sleep(0.1)
                unlisted = machine._snapshot([])[2] - before[2]
                listed = machine._snapshot([child.pid])[2] - before[2]
        finally:
            child.kill()
            child.wait()
        self.assertGreater(listed, unlisted)
        self.assertGreaterEqual(machine._snapshot([])[2] - before[2], listed)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

#!/usr/bin/env python3
"""Runs tools/compare_builds.py on scripts that pretend to be two builds of the program."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import compare_builds  # noqa: E402
import compare_configs  # noqa: E402

# Trains nothing: writes metrics with the LOSS of the last step, and a checkpoint with one tensor of the byte WEIGHT.
FAKE = """#!{python}
import json, pathlib, sys
if sys.argv[1] == "train":
    value = lambda flag: sys.argv[sys.argv.index(flag) + 1]
    steps = int(value("--train-iters"))
    with open(value("--metrics-file"), "w") as out:
        for i in range(1, steps + 1):
            loss = LOSS if i == steps else 5.0
            entry = {{"iteration": i, "lm_loss": loss, "grad_norm": 1.0, "seconds": i * SECONDS}}
            print(json.dumps(entry), file=out)
    if "--save" in sys.argv:
        folder = pathlib.Path(value("--save"), "iter_0000008")
        folder.mkdir(parents=True)
        header = json.dumps({{"w": {{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}}}).encode()
        (folder / "model-00000.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes([WEIGHT]))
"""


class CompareBuildsTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.before = self.build("before")

    def build(self, name, loss=4.25, weight=7, seconds=0.5, script=FAKE):
        program = Path(self.temp.name) / name
        values = f"LOSS, WEIGHT, SECONDS = {loss!r}, {weight}, {seconds}"
        program.write_text(script.format(python=sys.executable).replace("import json", f"{values}\nimport json", 1))
        program.chmod(0o755)
        return program

    def run_tool(self, after, *more):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = compare_builds.main([str(self.before), str(after), *more])
        return code, out.getvalue()

    def test_equal_builds_pass(self):
        code, text = self.run_tool(self.build("after"), "--only", "gpt2-f32", "llama-bf16")
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"(?m)^gpt2-f32 +8  4\.25 +4\.25 +equal$")
        self.assertTrue(text.endswith("\n2 passed, 0 failed\n"), text)

    def test_the_last_bit_of_a_loss_counts(self):
        code, text = self.run_tool(self.build("after", loss=4.250000000000001), "--only", "gpt2-f32")
        self.assertEqual(code, 1)
        self.assertRegex(text, r"4\.25 +4\.250000000000001 +DIFFERENT at step 8 \(lm_loss\)")
        self.assertTrue(text.endswith("\n0 passed, 1 failed\n"), text)

    def test_the_checkpoint_counts(self):
        code, text = self.run_tool(self.build("after", weight=8), "--only", "gpt2-f32")
        self.assertEqual(code, 1)
        self.assertIn("DIFFERENT in 1 tensors of the checkpoint (w, ...)", text)

    def test_a_failed_run_shows_its_last_line(self):
        after = self.build("after", script="#!/bin/sh\necho first; echo the reason >&2; exit 2\n")
        code, text = self.run_tool(after, "--only", "gpt2-f32")
        self.assertEqual(code, 1)
        self.assertIn("FAILED after: exit code 2: the reason", text)

    def test_a_run_without_metrics_fails(self):
        after = self.build("after", script="#!/bin/sh\n")
        self.assertIn("FAILED after: no metrics", self.run_tool(after, "--only", "gpt2-f32")[1])

    def test_speed_leaves_out_the_warm_up(self):
        after = self.build("after", seconds=0.25)
        code, text = self.run_tool(after, "--speed", "--rounds", "2", "--only", "gpt2-30m-f32")
        self.assertEqual(code, 0)
        self.assertRegex(text, r"gpt2-30m-f32 +2 +1750\.00 +875\.00  0\.500 \(0\.500 to 0\.500\)")

    def test_speed_takes_the_median_of_the_rounds(self):
        columns = compare_builds.speed_columns([10.0, 20.0, 40.0], [11.0, 18.0, 48.0])
        self.assertEqual(columns.split(), ["20.00", "18.00", "1.100", "(0.900", "to", "1.200)"])

    def test_metrics_differ_in_sign_and_length(self):
        def step(i, **numbers):
            return {"iteration": i, "lm_loss": 1.0, **numbers}

        difference = compare_builds.metrics_difference
        self.assertEqual(difference([step(1, time=1)], [step(1, time=2)]), "")
        self.assertEqual(difference([step(1, grad_norm=0.0)], [step(1, grad_norm=-0.0)]), "at step 1 (grad_norm)")
        self.assertEqual(difference([step(1)], [step(1), step(2)]), "at step 2 (lm_loss)")

    def test_names_are_unique_and_many(self):
        for device, least in (("cpu", 12), ("cuda", 8)):
            for configurations in (compare_configs.comparisons(device), compare_configs.timings(device)):
                names = [c.name for c in configurations]
                self.assertEqual(len(names), len(set(names)))
            self.assertGreaterEqual(len(compare_configs.comparisons(device)), least)

    def test_no_flag_is_given_twice(self):
        for device in ("cpu", "cuda"):
            for c in compare_configs.comparisons(device) + compare_configs.timings(device):
                flags = [word for word in c.flags if word.startswith("--")]
                self.assertEqual(len(flags), len(set(flags)), c.name)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Runs tools/check_megatron_configs.py on a script that pretends to be the program."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_megatron_configs  # noqa: E402

# Refuses --fp8-format, and files that are not there.
FAKE = """#!{python}
import os, sys
assert sys.argv[1] == "train" and sys.argv[-1] == "--print-config"
assert os.environ["WORLD_SIZE"] == "16"
problems = ["--fp8-format: not there", "--lr 3: too high"] if "--fp8-format" in sys.argv else []
files = [a for a in sys.argv if a.endswith((".json", ".txt", ".model")) and not os.path.exists(a)]
problems += [f + " is missing" for f in files]
if any(a in ("PATH", "${{SEED}}") for a in sys.argv):
    sys.exit(7)
if problems:
    print("tessera: problems", *problems, sep="\\n  - ", file=sys.stderr)
    sys.exit(2)
"""


class CheckMegatronConfigsTest(unittest.TestCase):
    def run_on(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "program")
            program.write_text(FAKE.format(python=sys.executable))
            program.chmod(0o755)
            configs = Path(folder, "configs.jsonl")
            rows = [{"id": f"c-{i}", "ranks": 16, "args": a} for i, a in enumerate(lines)]
            configs.write_text("".join(json.dumps(row) + "\n" for row in rows))
            out = io.StringIO()
            argv, sys.argv = sys.argv, ["check", str(program), str(configs)]
            try:
                with contextlib.redirect_stdout(out):
                    check_megatron_configs.main()
            finally:
                sys.argv = argv
            return out.getvalue()

    def test_counts_what_is_accepted_and_why_not(self):
        files = ["--vocab-file", "PATH", "--merge-file", "PATH", "--seed", "${SEED}"]
        text = self.run_on(files, ["--fp8-format", "hybrid"], ["--tokenizer-model", "PATH"])
        self.assertIn("c-0: accepted\nc-1: refused\n  - --fp8-format: not there\n", text)
        self.assertIn("accepted: 2 of 3", text)
        self.assertIn("    1  --lr N: too high", text)


if __name__ == "__main__":
    unittest.main()

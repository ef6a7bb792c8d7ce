#!/usr/bin/env python3
"""What make and the scripts for GPUs do with a user's choices; no GPU is needed."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = "CUDA_ARCHITECTURES"
OF_AN_OUTER_MAKE = {ARCHITECTURES, "MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}


def run(*command, **variables):
    env = {name: value for name, value in os.environ.items() if name not in OF_AN_OUTER_MAKE}
    command = [str(word) for word in command]
    return subprocess.run(
        command, cwd=ROOT, env=env | variables, capture_output=True, text=True, check=False
    )


class MakeTest(unittest.TestCase):
    def test_the_architectures_reach_cmake(self):
        given = run("make", "-n", "cuda", f"{ARCHITECTURES}=80;90")
        self.assertIn('cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES="80;90"\n', given.stdout)

    def test_nothing_given_changes_nothing(self):
        self.assertNotIn(ARCHITECTURES, run("make", "-n", "cuda").stdout)
        self.assertNotIn(ARCHITECTURES, (ROOT / "CMakePresets.json").read_text())


class SanitizerTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.folder = Path(self.temp.name)

    def sanitize(self):
        script = ROOT / "tools" / "gpu_test.sh"
        variables = {"PATH": "/usr/bin:/bin", "CUDA_HOME": str(self.folder)}
        return run(script, "--sanitize", self.folder, **variables)

    def test_it_is_found_beside_the_path(self):
        program = self.folder / "bin" / "compute-sanitizer"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho '[  PASSED  ] 1 test.'\n")
        program.chmod(0o755)
        done = self.sanitize()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for tool in ("memcheck", "racecheck", "initcheck"):
            self.assertRegex(done.stdout, rf"(?m)^{tool} +ok ")

    def test_a_missing_one_is_reported(self):
        done = self.sanitize()
        self.assertEqual(done.returncode, 1)
        self.assertIn("CUDA_HOME", done.stderr)


if __name__ == "__main__":
    unittest.main()

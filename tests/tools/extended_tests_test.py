#!/usr/bin/env python3
"""Runs tools/extended_tests.py on small suites of shell commands."""

import io
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import extended_tests  # noqa: E402

COUNT = r"^did (\d+)"


def shell(*scripts):
    return [["sh", "-c", script] for script in scripts]


class ExtendedTestsTest(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.folder = Path(self.temp.name) / "state"
        self.mark = Path(self.temp.name) / "mark"

    def run_all(self, steps, tree="a tree", env=None):
        out = io.StringIO()
        suite = extended_tests.Suite("demo", steps, COUNT, env or {})
        good = extended_tests.run_all([suite], self.folder, tree, out)
        return good, out.getvalue()

    def lines_in_mark(self):
        return len(self.mark.read_text().splitlines())

    def test_counts_of_all_steps_are_added(self):
        good, text = self.run_all(shell("echo did 20", "echo did 22"))
        self.assertTrue(good)
        self.assertRegex(text, r"(?m)^demo +42  ok  ")
        self.assertIn("extended tests: 1 passed, 0 failed", text)

    def test_small_ones_run_beside_each_other(self):
        # Each waits for what the other does.
        a, b = self.mark.with_suffix(".a"), self.mark.with_suffix(".b")

        def meet(own, other):
            wait = f"for i in $(seq 100); do [ -e {other} ] && echo did 1 && exit; sleep 0.1; done; exit 1"
            return shell(f"touch {own}; {wait}")

        out = io.StringIO()
        both = [extended_tests.Suite("a", meet(a, b), COUNT, alone=False),
                extended_tests.Suite("b", meet(b, a), COUNT, alone=False)]
        with unittest.mock.patch("os.cpu_count", return_value=2):
            self.assertTrue(extended_tests.run_all(both, self.folder, "a tree", out), out.getvalue())
        self.assertRegex(out.getvalue(), r"(?ms)^a +1  ok .*^b +1  ok ")

    def test_environment_reaches_the_step(self):
        good, text = self.run_all(shell("echo did $N"), env={"N": "7"})
        self.assertTrue(good)
        self.assertRegex(text, r"demo +7  ok")

    def test_failure_shows_the_end_of_the_output(self):
        good, text = self.run_all(shell("echo did 1; echo the reason >&2; exit 3"))
        self.assertFalse(good)
        self.assertRegex(text, r"demo +0  FAILED")
        self.assertIn("the reason", text)
        self.assertIn("0 passed, 1 failed", text)

    def test_running_nothing_is_a_failure(self):
        self.assertFalse(self.run_all(shell("echo nothing"))[0])
        self.assertFalse(self.run_all(shell("echo nothing"))[0])

    def test_unknown_command_in_a_step_does_not_pass(self):
        self.assertFalse(self.run_all(shell("no_such_command_at_all; exit $?"))[0])

    def test_goes_on_after_the_last_step_that_passed(self):
        first = f"echo x >> {self.mark}; echo did 1"
        self.assertFalse(self.run_all(shell(first, "exit 1"))[0])
        good, text = self.run_all(shell(first, "echo did 2"))
        self.assertTrue(good)
        self.assertRegex(text, r"demo +3  ok  ")
        self.assertEqual(self.lines_in_mark(), 1)
        self.assertRegex(self.run_all(shell(first, "echo did 2"))[1], r"demo +3  ok \(earlier\)")

    def test_changed_tree_starts_anew(self):
        steps = shell(f"echo x >> {self.mark}; echo did 1")
        self.run_all(steps, "one tree")
        self.run_all(steps, "one tree")
        self.assertEqual(self.lines_in_mark(), 1)
        self.run_all(steps, "another tree")
        self.assertEqual(self.lines_in_mark(), 2)

    def test_count_patterns_match_what_the_programs_print(self):
        for pattern, line in (
            (extended_tests.GTEST_COUNT, "[==========] 12 tests from 3 test suites ran. (5 ms total)"),
            (extended_tests.GTEST_COUNT, "[==========] 12 test from 1 test suite ran. (5 ms total)"),
            (extended_tests.CTEST_COUNT, "100% tests passed, 0 tests failed out of 12"),
            (extended_tests.FUZZ_COUNT, "fuzz: fuzz_json                 12 inputs ok    1 s"),
            (extended_tests.FILE_COUNT, "check_layers: 12 files, 0 violations"),
            (extended_tests.STRING_COUNT, "hf-gpt2: 12 strings, 0 differ"),
            (extended_tests.STRING_COUNT, "trainer: 12 models, 0 differ"),
        ):
            self.assertRegex(line, pattern)


if __name__ == "__main__":
    unittest.main()

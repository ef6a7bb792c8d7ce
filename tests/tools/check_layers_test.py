#!/usr/bin/env python3
"""Shows tools/check_layers.py each kind of violation, and what must pass."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_layers.py"
sys.path.insert(0, str(TOOL.parent))
sys.dont_write_bytecode = True

import check_layers  # noqa: E402


def header(*includes):
    return "#pragma once\n" + "".join(f'#include "tessera/{name}"\n' for name in includes)


class CheckLayersTest(unittest.TestCase):
    def complaints(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_layers.check(root)[0]

    def expect_one(self, files, *parts):
        found = self.complaints(files)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def expect_allowed(self, module, *headers):
        self.assertEqual(self.complaints({f"tessera/{module}/x.h": header(*headers)}), [])

    def expect_refused(self, module, name):
        self.expect_one(
            {f"tessera/{module}/x.h": header(name)},
            f"tessera/{module}/x.h:2: {module} may not include tessera/{name}",
        )

    def test_what_the_table_allows(self):
        self.expect_allowed("tensor", "base/check.h", "tensor/view.h")
        self.expect_allowed("nn", "parallel/mesh.h", "kernels/kernels.h", "comm/work.h")
        self.expect_allowed("model", "nn/linear.h", "pipeline/stage.h")
        self.expect_allowed("optim", "nn/parameter.h", "parallel/mesh.h")
        self.expect_allowed("checkpoint", "parallel/sharding.h", "options/model_options.h")
        self.expect_allowed("config", "options/optim_options.h", "options/train_options.h")
        self.expect_allowed("engine", "data/loader.h", "optim/optimizer.h", "launch/launch.h")
        self.expect_allowed("infer", "engine/session.h", "options/options.h")
        self.expect_allowed("train", "config/parse.h", "nn/linear.h", "launch/run.h")

    def test_a_folder_with_its_own_row(self):
        self.expect_allowed("checkpoint/saving", "engine/session.h", "checkpoint/checkpoint.h")
        self.expect_allowed("verify", "checkpoint/saving/whole_tensors.h")
        self.expect_refused("checkpoint", "engine/session.h")
        self.expect_refused("checkpoint", "checkpoint/saving/saver.h")
        self.expect_refused("verify", "checkpoint/checkpoint.h")

    def test_including_upwards(self):
        self.expect_refused("base", "tensor/view.h")
        self.expect_refused("tensor", "kernels/kernels.h")
        self.expect_refused("kernels", "comm/communicator.h")
        self.expect_refused("data", "nn/linear.h")
        self.expect_refused("nn", "train/build.h")
        self.expect_refused("options", "config/parse.h")
        self.expect_refused("engine", "train/trainer.h")
        self.expect_refused("observe", "train/trainer.h")
        self.expect_refused("train", "infer/generate.h")

    def test_modules_that_open_single_headers(self):
        self.expect_refused("optim", "nn/linear.h")
        self.expect_refused("model", "pipeline/executor.h")
        self.expect_refused("checkpoint", "parallel/mesh.h")
        self.expect_refused("checkpoint", "model/gpt.h")
        self.expect_refused("config", "model/gpt.h")

    def test_message_names_both_sides_of_the_rule(self):
        files = {"tessera/pipeline/x.cpp": '\n#include "tessera/nn/parameter.h"\n'}
        self.expect_one(
            files,
            "tessera/pipeline/x.cpp:2: ",
            "pipeline may include: base/*, tensor/*, options/*, spec/*, comm/*, parallel/sharding.h.",
            "may be included by: model, optim, engine, checkpoint/saving, observe, infer, verify, train, "
            "run, apps, tests, bench.",
        )

    def test_plan_takes_pure_headers(self):
        files = {
            "tessera/plan/cost.h": header("parallel/rank_grid.h"),
            "tessera/parallel/rank_grid.h": header("options/parallel_options.h"),
            "tessera/options/parallel_options.h": header("base/check.h"),
        }
        self.assertEqual(self.complaints(files), [])

    def test_plan_refuses_impure_headers(self):
        files = {
            "tessera/plan/cost.h": header("parallel/mesh.h"),
            "tessera/parallel/mesh.h": header("parallel/groups.h"),
            "tessera/parallel/groups.h": header("comm/communicator.h"),
        }
        self.expect_one(files, "tessera/plan/cost.h:2", "reaches tessera/comm/communicator.h")

    def test_unknown_module(self):
        self.expect_one({"tessera/attic/x.h": header()}, "tessera/attic/x.h:1", "no such module")
        self.expect_one({"tessera/x.h": header()}, "tessera/x.h:1", "no such module")

    def test_relative_include(self):
        files = {"tessera/base/x.cpp": '#include "x.h"\n'}
        self.expect_one(files, 'tessera/base/x.cpp:1: "x.h" is not a full path')

    def test_tests_are_out_of_reach(self):
        files = {"tessera/base/x.cpp": '#include "tests/support/temp_folder.h"\n'}
        self.expect_one(files, "tessera/base/x.cpp:1", "not a full path in tessera/")

    def test_files_in_a_circle(self):
        files = {
            "tessera/base/a.h": header("base/b.h"),
            "tessera/base/b.h": header("base/c.h"),
            "tessera/base/c.h": header("base/a.h"),
        }
        self.expect_one(files, "tessera/base/c.h:2", "base/a.h -> base/b.h -> base/c.h -> base/a.h")

    def test_file_that_includes_itself(self):
        self.expect_one({"tessera/base/a.h": header("base/a.h")}, "base/a.h -> base/a.h")

    def test_modules_in_a_circle(self):
        files = {
            "tessera/engine/a.h": header("optim/b.h"),
            "tessera/optim/b.h": header("nn/parameter.h"),
            "tessera/nn/c.h": header("engine/d.h"),
        }
        circle = "modules include each other: engine -> optim -> nn -> engine"
        found = self.complaints(files)
        self.assertEqual(len(found), 2, found)
        self.assertEqual(found[0], f"tessera/nn/c.h:2: {circle}")
        self.assertIn("tessera/nn/c.h:2: nn may not include tessera/engine/d.h", found[1])

    def test_parts_of_a_module_in_a_circle(self):
        files = {
            "tessera/tokenizer/hf/a.h": header("tokenizer/bpe/b.h"),
            "tessera/tokenizer/bpe/c.h": header("tokenizer/hf/d.h"),
        }
        circle = "parts of a module include each other: tokenizer/bpe -> tokenizer/hf -> tokenizer/bpe"
        self.expect_one(files, "tessera/tokenizer/hf/a.h:2", circle)

    def test_the_root_of_a_module_and_its_parts(self):
        files = {
            "tessera/tokenizer/tokenizer.h": header(),
            "tessera/tokenizer/bpe/bpe.h": header("tokenizer/tokenizer.h"),
            "tessera/tokenizer/make.cpp": '#include "tessera/tokenizer/bpe/bpe.h"\n',
        }
        self.assertEqual(self.complaints(files), [])

    def test_missing_pragma_once(self):
        self.expect_one({"tessera/base/a.h": "struct A {};\n"}, "tessera/base/a.h:1: a header must")
        self.expect_one({"tests/support/a.h": "// no #pragma once\n"}, "tests/support/a.h:1")

    def test_conditional_compilation(self):
        for line in ("#if FOO", "#ifdef FOO", "# ifndef FOO", "  #elif FOO"):
            self.expect_one({"tessera/comm/a.cpp": f"\n{line}\n"}, "tessera/comm/a.cpp:2")
        allowed = {"tessera/base/host_device.h": header() + "#ifdef __CUDACC__\n#endif\n"}
        self.assertEqual(self.complaints(allowed), [])

    def test_exit_code(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = subprocess.run([TOOL, folder], capture_output=True, text=True)
            self.assertEqual(empty.returncode, 1, empty.stdout)
            self.assertIn("no source file", empty.stdout)
            (Path(folder) / "tessera/base").mkdir(parents=True)
            (Path(folder) / "tessera/base/a.h").write_text(header())
            clean = subprocess.run([TOOL, folder], capture_output=True, text=True)
            self.assertEqual(clean.returncode, 0, clean.stdout)
            self.assertEqual(clean.stdout, "check_layers: 1 files, 0 violations\n")


if __name__ == "__main__":
    unittest.main()

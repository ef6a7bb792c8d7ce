#!/usr/bin/env python3
"""Shows tools/check_local_names.py what it must find, and what it must let pass."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.dont_write_bytecode = True

import check_local_names  # noqa: E402


def source(body):
    return f"namespace tessera {{\nnamespace {{\n{body}\n}}  // namespace\n}}  // namespace tessera\n"


def names(body):
    return [name for _, _, name, _ in check_local_names.local_names(source(body))]


class LocalNamesTest(unittest.TestCase):
    def test_functions(self):
        self.assertEqual(names("int f(int x) { return x; }"), ["f"])
        self.assertEqual(names("std::map<int, std::vector<int>>& g(const T* t = h());"), ["g"])
        self.assertEqual(names("template <class T, int N>\nauto read(T x) -> T { return x; }"), ["read"])
        self.assertEqual(names("[[nodiscard]] const char* text(X x) {}"), ["text"])

    def test_types_and_aliases(self):
        self.assertEqual(names("struct A { int x; void f(); };"), ["A"])
        self.assertEqual(names("class B final : public Base { };"), ["B"])
        self.assertEqual(names("enum class C : int { one, two };"), ["C"])
        self.assertEqual(names("using D = std::vector<int>;\nusing std::swap;\nusing namespace x;"), ["D"])

    def test_constants(self):
        self.assertEqual(names("constexpr double kHalf = 0.5;"), ["kHalf"])
        self.assertEqual(names('const char* const kNames[] = {"a", "b"};'), ["kNames"])
        self.assertEqual(names("constexpr Range kRange{1, 2};"), ["kRange"])

    def test_what_is_no_local_name(self):
        self.assertEqual(names("// int f();\n/* int g(); */"), [])
        self.assertEqual(names('static_assert(sizeof(int) == 4, "int f();");'), [])
        self.assertEqual(names('TEST(Suite, Name) { int x = 0; }'), [])
        self.assertEqual(names("int f() { struct Inner {}; auto g = [] {}; return '\"'; }"), ["f"])
        text = "namespace tessera {\nvoid Type::member() {}\nint shared(int x) { return x; }\n}\n"
        self.assertEqual(check_local_names.local_names(text), [])

    def test_static_outside_of_unnamed_namespaces(self):
        found = check_local_names.local_names("namespace tessera {\n\nstatic int f() { return 1; }\n}\n")
        self.assertEqual(found, [(3, "tessera", "f", None)])


class CheckTest(unittest.TestCase):
    def complaints(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_local_names.check(root)[0]

    def test_one_name_in_two_sources_of_a_target(self):
        files = {
            "tessera/nn/CMakeLists.txt": "",
            "tessera/nn/a.cpp": source("int f() { return 1; }"),
            "tessera/nn/deep/b.cpp": source("struct f {};"),
        }
        found = self.complaints(files)
        self.assertEqual(
            found,
            ["tessera/nn/a.cpp:3: tessera/nn has another local name `f` in tessera/nn/deep/b.cpp:3"],
        )

    def test_other_targets_and_other_namespaces(self):
        files = {
            "tessera/nn/CMakeLists.txt": "",
            "tessera/nn/a.cpp": source("int f() { return 1; }"),
            "tessera/nn/b.cpp": source("int f() { return 1; }").replace("tessera {", "tessera::x {"),
            "tessera/nn/saving/CMakeLists.txt": "",
            "tessera/nn/saving/c.cpp": source("int f() { return 1; }"),
        }
        self.assertEqual(self.complaints(files), [])

    def test_overloads_in_one_source(self):
        body = "int f(int) { return 1; }\nint f(double) { return 1; }"
        files = {"tessera/nn/CMakeLists.txt": "", "tessera/nn/a.cpp": source(body)}
        self.assertEqual(self.complaints(files), [])

    def test_aliases_may_agree(self):
        files = {
            "tessera/nn/CMakeLists.txt": "",
            "tessera/nn/a.cpp": source("using Clock = std::chrono::steady_clock;"),
            "tessera/nn/b.cpp": source("using  Clock = std::chrono::steady_clock;"),
        }
        self.assertEqual(self.complaints(files), [])
        files["tessera/nn/b.cpp"] = source("using Clock = std::chrono::system_clock;")
        self.assertEqual(len(self.complaints(files)), 1)

    def test_test_programs(self):
        files = {
            "tests/CMakeLists.txt": "tessera_test(nn TOGETHER LINKS x)\ntessera_test(comm LINKS x)\n",
            "tests/nn/a_test.cpp": source("int f() { return 1; }"),
            "tests/nn/b_test.cpp": source("int f() { return 1; }"),
            "tests/comm/a_test.cpp": source("int f() { return 1; }"),
            "tests/comm/b_test.cpp": source("int f() { return 1; }"),
        }
        found = self.complaints(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn("tests/nn/a_test.cpp:3", found[0])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Fails where two sources that may be compiled as one have the same local name.

usage: tools/check_local_names.py [ROOT]

A unity build (cmake/tessera_target.cmake) puts several sources of a target into one translation
unit, and CMake decides which. So names with internal linkage (functions, types, constants and aliases
in unnamed namespaces, and `static` ones) must be unique among all sources of the target: the folder of
a CMakeLists.txt below tessera/, or a test program that tests/CMakeLists.txt builds TOGETHER. Aliases of
the same type may repeat, which C++ allows.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

# Comments, raw strings, strings, characters (but no digit separators), preprocessor lines.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
NAMESPACE = re.compile(r"(?:inline\s+)?namespace(?:\s+([\w:]+))?$")
TYPE = re.compile(r"(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(\w+)\s*(?:final\b\s*)?(?::|$)")
ALIAS = re.compile(r"using\s+(\w+)\s*=")
NO_DECLARATION = re.compile(r"(?:using|friend|extern|static_assert|namespace)\b")
FUNCTION = re.compile(r"[\w>*&\]]\s+[*&]*(\w+)\s*\(|[*&]\s*(\w+)\s*\(")
VARIABLE = re.compile(r"[\w>*&\]]\s*[*&\s](\w+)\s*(?:\[[^\]]*\]\s*)*$")
LOCAL = re.compile(r"(?:\[\[[^\]]*\]\]\s*)?(?:static|constexpr|const)\b")


def blank(match):
    """Line numbers stay as they are; a literal stays one."""
    text = match[0]
    literal = '""' if text[0] in "\"'R" else " "
    return literal + "\n" * text.count("\n")


def without_brackets(text, opening, closing):
    """`text` without what stands between the outermost brackets, which may be nested."""
    kept, depth = [], 0
    for char in text:
        if char == opening:
            depth += 1
        elif char == closing and depth > 0:
            depth -= 1
        elif depth == 0:
            kept.append(char)
    return "".join(kept)


def declared_name(statement):
    """The name that a statement at namespace scope declares, or None: qualified names are members of
    what is declared elsewhere."""
    text = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^)]*\)", " ", statement)
    text = " ".join(without_brackets(text.replace("->", " "), "<", ">").split())
    text = re.sub(r"^template (?:requires\b.*?(?=\b(?:class|struct|auto|void|bool)\b))?", "", text)
    alias = ALIAS.match(text)
    if alias:
        return alias[1]
    if NO_DECLARATION.match(text):
        return None
    kind = TYPE.match(text)
    if kind:
        return kind[1]
    head = text.split("=")[0].strip()
    function = FUNCTION.search(head)
    if function:
        return function[1] or function[2]
    variable = None if "(" in head else VARIABLE.search(head)
    return variable[1] if variable else None


def skip_block(text, start):
    """Behind the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def statements(text):
    """What stands at namespace scope: (place, namespaces around it, text up to its `{` or `;`)."""
    scopes, begin, i = [], 0, 0
    while i < len(text):
        head = text[begin:i]
        if text[i] == "{":
            space = NAMESPACE.match(head.strip())
            if space:
                scopes.append(space[1] or "")
                begin = i + 1
            else:
                yield begin, list(scopes), head
                i = skip_block(text, i)
                begin = i
                continue
        elif text[i] == ";":
            if head.strip():
                yield begin, list(scopes), head
            begin = i + 1
        elif text[i] == "}":
            if scopes:
                scopes.pop()
            begin = i + 1
        i += 1


def local_names(source):
    """(line, namespace, name, text) of every declaration with internal linkage; the text only of an
    alias."""
    text = NOISE.sub(blank, source)
    found = []
    for place, scopes, head in statements(text):
        if "" not in scopes and not LOCAL.match(head.strip()):
            continue
        name = declared_name(head)
        if name:
            line = text.count("\n", 0, place + len(head) - len(head.lstrip())) + 1
            text_of_alias = " ".join(head.split()) if ALIAS.match(head.strip()) else None
            found.append((line, "::".join(s for s in scopes if s), name, text_of_alias))
    return found


def targets(root):
    """The sources that may be compiled as one, by target."""
    groups = defaultdict(list)
    for file in sorted((root / "tessera").rglob("*.cpp")):
        folder = next(p for p in file.parents if (p / "CMakeLists.txt").is_file() or p == root)
        groups[folder.relative_to(root).as_posix()].append(file)
    listing = root / "tests" / "CMakeLists.txt"
    programs = listing.read_text() if listing.is_file() else ""
    for name in re.findall(r"^\s*tessera_test\((\w+) TOGETHER", programs, re.MULTILINE):
        groups[f"tests/{name}"] = sorted((root / "tests" / name).glob("*_test.cpp"))
    return groups


def check_target(root, target, files):
    """Complaints about the sources of one target, and the number of its local names."""
    places, aliases, count = defaultdict(dict), defaultdict(set), 0
    for file in files:
        for line, space, name, alias in local_names(file.read_text()):
            count += 1
            places[space, name].setdefault(file.relative_to(root).as_posix(), line)
            aliases[space, name].add(alias)
    complaints = []
    for key, where in places.items():
        same_alias = len(aliases[key]) == 1 and None not in aliases[key]
        if len(where) > 1 and not same_alias:
            (first, line), *others = where.items()
            elsewhere = ", ".join(f"{file}:{at}" for file, at in others)
            complaints.append(f"{first}:{line}: {target} has another local name `{key[1]}` in {elsewhere}")
    return complaints, count


def check(root):
    """All complaints about the tree under `root`, and the number of names that were read."""
    complaints, count = [], 0
    for target, files in targets(root).items():
        found, read = check_target(root, target, files)
        complaints += found
        count += read
    return sorted(complaints), count


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    complaints, count = check(root)
    for complaint in complaints:
        print(complaint)
    print(f"check_local_names: {count} local names, {len(complaints)} violations")
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds the codebase's layering, and fails on every include that breaks it.

usage: tools/check_layers.py [ROOT]

Modules are the folders of tessera/, and folders in them that have their own row in the table. apps/,
tests/ and bench/ may include everything, and nothing in tessera/ may include them. Besides the table,
this checks that neither files nor modules nor the subfolders of a module include each other in a
circle, that headers say `#pragma once`, and that tessera/ has no conditional compilation.
"""

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

LOW = ["base/*", "tensor/*"]
LAYERS = LOW + ["options/*", "spec/*", "kernels/*", "comm/*", "parallel/*"]
STORED = LOW + ["options/*", "spec/*", "comm/*", "parallel/sharding.h"]
# All that a session is made of.
SESSION = LAYERS + ["launch/*", "data/*", "nn/*", "pipeline/*", "model/*", "optim/*"]
WITH_SESSION = SESSION + ["engine/*", "tokenizer/*"]

# module -> the headers it may include besides its own, as patterns of paths under tessera/.
MAY_INCLUDE = {
    "base": [],
    "options": ["base/*"],
    "spec": ["base/*", "options/*", "parallel/placement.h"],
    "tensor": ["base/*"],
    "kernels": LOW,
    "comm": LOW,
    "launch": LOW + ["comm/*"],
    "parallel": LOW + ["options/*", "comm/*", "kernels/*"],
    "tokenizer": ["base/*", "options/*"],
    "data": LOW + ["options/*", "tokenizer/*"],
    "nn": LOW + ["spec/*", "parallel/*", "kernels/*", "comm/*"],
    "pipeline": STORED,
    "model": LOW + ["options/*", "spec/*", "nn/*", "pipeline/stage.h", "pipeline/stage_split.h"],
    "optim": LAYERS + ["nn/initialize.h", "nn/module_hooks.h", "nn/parameter.h"],
    "engine": SESSION,
    "checkpoint": STORED,
    "checkpoint/saving": WITH_SESSION + ["checkpoint/*"],
    "observe": WITH_SESSION,
    "infer": WITH_SESSION,
    "verify": WITH_SESSION + ["checkpoint/saving/*"],
    "plan": LOW + ["options/*", "spec/*", "parallel/*", "pipeline/*"],
    "config": LOW + ["options/*", "spec/*", "pipeline/schedules.h", "pipeline/stage_split.h"],
    "train": WITH_SESSION + ["checkpoint/*", "observe/*", "config/*"],
    "run": WITH_SESSION + ["checkpoint/*", "observe/*", "config/*", "train/*"],
    "tessera.h": ["base/check.h", "options/options.h", "observe/metrics.h", "run/train.h"],
}

# Modules that may take only the pure headers of others: those that reach nothing of these modules.
PURE_ONLY = {"plan"}
IMPURE = ("tensor", "kernels", "comm")

# The one file that may ask the preprocessor which compiler runs.
CONDITIONALS_ALLOWED = {"base/host_device.h"}

SOURCE_SUFFIXES = {".h", ".cuh", ".cpp", ".cu"}
HEADER_SUFFIXES = {".h", ".cuh"}

INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
CONDITIONAL = re.compile(r"\s*#\s*(?:if|ifdef|ifndef|elif)\b")
PRAGMA_ONCE = re.compile(r"^#pragma once\b", re.MULTILINE)


def module_name(path):
    """The row of the table that a file belongs to: the innermost folder that has one."""
    folders = path.split("/")[:-1]
    prefixes = ["/".join(folders[:n]) for n in range(len(folders), 0, -1)]
    return next((p for p in prefixes if p in MAY_INCLUDE), path.split("/")[0])


def part_name(path):
    """The subfolder of a module that a file is in; None: the module's own folder, which holds the
    interfaces of its parts and what is made of them, and so may include and be included."""
    rest = path[len(module_name(path)) + 1:]
    return f"{module_name(path)}/{rest.split('/')[0]}" if "/" in rest else None


def sources(folder):
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES)


def read_includes(text):
    """The quoted includes of a file, as (line number, text between the quotes)."""
    found = ((number, INCLUDE.match(line)) for number, line in enumerate(text.splitlines(), 1))
    return [(number, match[1]) for number, match in found if match]


def own_includes(includes):
    """Those of tessera/, as (line number, path under tessera/)."""
    return [(n, name[len("tessera/"):]) for n, name in includes if name.startswith("tessera/")]


def who_may_include(header):
    modules = [module for module, allowed in MAY_INCLUDE.items() if matches(header, allowed)]
    return ", ".join(modules + ["apps", "tests", "bench"])


def matches(header, patterns):
    return any(fnmatch(header, pattern) for pattern in patterns)


def reach(graph, header):
    """Every file that `header` includes, directly or not."""
    seen, open_files = set(), [header]
    while open_files:
        for _, target in graph.get(open_files.pop(), []):
            if target not in seen:
                seen.add(target)
                open_files.append(target)
    return seen


def check_direction(path, line, header, graph):
    """The complaint about one include of another module's header, or None."""
    module, where = module_name(path), f"tessera/{path}:{line}"
    allowed = MAY_INCLUDE[module]
    if not matches(header, allowed):
        return (
            f"{where}: {module} may not include tessera/{header}. "
            f"{module} may include: {', '.join(allowed) or 'no other module'}. "
            f"tessera/{header} may be included by: {who_may_include(header)}."
        )
    if module in PURE_ONLY and not matches(header, LOW):
        impure = sorted(f for f in reach(graph, header) if module_name(f) in IMPURE)
        if impure:
            return (
                f"{where}: {module} may include only pure headers of {module_name(header)} (that reach "
                f"none of {', '.join(IMPURE)}), but tessera/{header} reaches tessera/{impure[0]}."
            )
    return None


def check_includes(path, includes, graph):
    module = module_name(path)
    if module not in MAY_INCLUDE:
        yield f"tessera/{path}:1: no such module in the table of tools/check_layers.py: {module}"
        return
    for line, name in includes:
        if not name.startswith("tessera/"):
            yield (
                f'tessera/{path}:{line}: "{name}" is not a full path in tessera/. Write '
                f'"tessera/<module>/<file>.h", and <...> for libraries.'
            )
    for line, header in own_includes(includes):
        if module_name(header) != module:
            complaint = check_direction(path, line, header, graph)
            if complaint:
                yield complaint


def cycles(graph):
    """(what closes the circle, the nodes of the circle) for every circle in node -> [(where, node)].
    Depth first; an edge to a node that is still being visited closes a circle."""
    done = set()

    def visit(node, trail):
        for where, target in graph.get(node, []):
            if target in trail:
                yield (node, where), trail[trail.index(target):] + [target]
            elif target not in done:
                yield from visit(target, trail + [target])
        done.add(node)

    for node in sorted(graph):
        if node not in done:
            yield from visit(node, [node])


def check_file_cycles(graph):
    for (path, line), circle in cycles(graph):
        yield f"tessera/{path}:{line}: files include each other: {' -> '.join(circle)}"


def folder_graph(graph, name):
    """folder -> [(the first include of it, other folder)], by what `name` calls a file's folder."""
    edges = {}
    for path in sorted(graph):
        for line, header in graph[path]:
            a, b = name(path), name(header)
            if a and b and a != b:
                edges.setdefault(a, {}).setdefault(b, f"{path}:{line}")
    return {a: [(where, b) for b, where in found.items()] for a, found in edges.items()}


def check_folder_cycles(graph):
    for kind, name in (("modules", module_name), ("parts of a module", part_name)):
        for (_, where), circle in cycles(folder_graph(graph, name)):
            yield f"tessera/{where}: {kind} include each other: {' -> '.join(circle)}"


def check_conditionals(path, text):
    if path in CONDITIONALS_ALLOWED:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if CONDITIONAL.match(line):
            yield (
                f"tessera/{path}:{number}: conditional compilation is only allowed in "
                f"tessera/{', '.join(CONDITIONALS_ALLOWED)}. Choose by which file is compiled."
            )


def check_pragma_once(root):
    for folder in ("tessera", "apps", "tests", "bench"):
        for file in sources(root / folder):
            if file.suffix in HEADER_SUFFIXES and not PRAGMA_ONCE.search(file.read_text()):
                yield f"{file.relative_to(root)}:1: a header must say #pragma once"


def check(root):
    """All complaints about the tree under `root`, as lines of text that start with file:line."""
    codebase = root / "tessera"
    texts = {str(f.relative_to(codebase)): f.read_text() for f in sources(codebase)}
    includes = {path: read_includes(text) for path, text in texts.items()}
    graph = {path: own_includes(found) for path, found in includes.items()}
    complaints = list(check_pragma_once(root))
    for path, text in texts.items():
        complaints += check_includes(path, includes[path], graph)
        complaints += check_conditionals(path, text)
    complaints += list(check_file_cycles(graph)) + list(check_folder_cycles(graph))
    return sorted(complaints), len(texts)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    complaints, count = check(root)
    if count == 0:
        complaints = [f"{root}/tessera:1: there is no source file here"]
    for complaint in complaints:
        print(complaint)
    print(f"check_layers: {count} files, {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

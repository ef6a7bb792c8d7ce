#!/usr/bin/env python3
"""Holds the codebase's layering, and fails on every include that breaks it.

usage: tools/check_layers.py [ROOT]

Modules are the folders of tessera/. apps/, tests/ and bench/ may include everything, and nothing in
tessera/ may include them. Besides the table, this checks that files do not include each other in a
circle, that headers say `#pragma once`, and that tessera/ has no conditional compilation.
"""

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

LOW = ["base/*", "tensor/*"]

# module -> the headers it may include besides its own, as patterns of paths under tessera/.
MAY_INCLUDE = {
    "base": [],
    "tensor": ["base/*"],
    "kernels": LOW,
    "comm": LOW,
    "launch": LOW + ["comm/*"],
    "parallel": LOW + ["comm/*", "kernels/*"],
    "tokenizer": ["base/*"],
    "data": LOW + ["tokenizer/*"],
    "nn": LOW + ["parallel/*", "kernels/*", "comm/*"],
    "pipeline": LOW + ["comm/*", "parallel/sharding.h"],
    "model": LOW
    + ["nn/*", "pipeline/stage.h", "pipeline/stage_split.h", "parallel/parallel_options.h"],
    "optim": LOW + ["nn/parameter.h", "nn/module_hooks.h", "parallel/*", "kernels/*", "comm/*"],
    "checkpoint": LOW + ["parallel/sharding.h", "model/model_options.h", "comm/*"],
    "plan": LOW + ["parallel/*", "pipeline/*", "model/*", "*/*_options.h"],
    "config": LOW + ["*/*_options.h", "pipeline/schedules.h", "pipeline/stage_split.h"],
    "train": ["*"],
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
    return path.split("/")[0]


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


def check_cycles(graph):
    """Depth first; an include of a file that is still being visited closes a circle."""
    done = set()

    def visit(path, trail):
        for line, target in graph.get(path, []):
            if target in trail:
                circle = trail[trail.index(target):] + [target]
                yield f"tessera/{path}:{line}: files include each other: {' -> '.join(circle)}"
            elif target not in done:
                yield from visit(target, trail + [target])
        done.add(path)

    for path in sorted(graph):
        if path not in done:
            yield from visit(path, [path])


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
    return sorted(complaints + list(check_cycles(graph))), len(texts)


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

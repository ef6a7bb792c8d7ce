#!/usr/bin/env python3
"""Writes tessera/tokenizer/unicode/unicode_table.cpp: the general category of every code point.

usage: tools/make_unicode_tables.py

Unicode grows, and tokens depend on it: a letter that a program does not know is punctuation to its
patterns. So the table is not taken from Unicode, but from the two programs whose tokens ours must
equal, by asking their regular expressions about each code point. The versions below have the same
Unicode; this script refuses to write a table when they do not.
"""

import sys
from pathlib import Path

from rival_venv import in_rival_venv

CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
)
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BLOCK = 4096

HEADER = """\
// Made by tools/make_unicode_tables.py from {versions}: do not edit.
#include "tessera/tokenizer/unicode/unicode_table.h"

// clang-format off
namespace tessera {{

// Where a run of code points of one category begins, times 32, plus the category.
const std::uint32_t kCategoryRuns[] = {{
{rows}
}};

const std::size_t kCategoryRunCount = std::size(kCategoryRuns);

}}  // namespace tessera
"""


def blocks():
    for i in range(0, len(CODE_POINTS), BLOCK):
        yield "".join(map(chr, CODE_POINTS[i : i + BLOCK]))


def class_of_tokenizers(pattern):
    from tokenizers import Regex, pre_tokenizers

    matches = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {c for block in blocks() for piece, _ in matches.pre_tokenize_str(block) for c in piece}


def class_of_tiktoken(pattern):
    import tiktoken

    ranks = {bytes([i]): i for i in range(256)}
    matches = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return {c for block in blocks() for c in bytes(matches.encode_ordinary(block)).decode()}


def same_class(pattern):
    asked = class_of_tokenizers(pattern)
    if asked != class_of_tiktoken(pattern):
        sys.exit(f"{pattern} is not the same for tokenizers and tiktoken: make two tables")
    return asked


def categories():
    """The number of each code point's category; 0 is Cn, and surrogates are 29."""
    table = [0] * 0x110000
    for c in range(0xD800, 0xE000):
        table[c] = len(CATEGORIES) + 1
    for number, name in enumerate(CATEGORIES, 1):
        for c in same_class(r"\p{%s}" % name):
            table[ord(c)] = number
    return table


def check_spaces():
    spaces = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
    spaces |= set(range(9, 14)) | set(range(0x2000, 0x200B))
    if {ord(c) for c in same_class(r"\s")} != spaces:
        sys.exit(r"\s is not what is_whitespace of tessera/tokenizer/unicode/unicode.h says")


def rows_of(numbers, width=100):
    row = " "
    for number in numbers:
        if len(row) + len(f" {number},") > width:
            yield row
            row = " "
        row += f" {number},"
    yield row


def main():
    from importlib.metadata import version

    check_spaces()
    table = categories()
    runs = [c * 32 + table[c] for c in range(0x110000) if c == 0 or table[c] != table[c - 1]]
    versions = f"tokenizers {version('tokenizers')} and tiktoken {version('tiktoken')}"
    path = Path(__file__).parent.parent / "tessera/tokenizer/unicode/unicode_table.cpp"
    path.write_text(HEADER.format(versions=versions, rows="\n".join(rows_of(runs))))
    print(f"{path}: {len(runs)} runs")


if __name__ == "__main__":
    in_rival_venv(main)

#!/usr/bin/env python3
"""Writes tessera/tokenizer/hf/hf_unicode_tables.cpp: the classes of characters that Hugging Face's
tokenizers has in its own parts (Rust's standard library and three crates, each with a Unicode
version of its own), by asking it about every code point.

usage: tools/make_hf_unicode_tables.py [FILE]     (needs tokenizers 0.23.3 and libutf8proc 2.8)
"""

import ctypes
import sys
from pathlib import Path

import tokenizers
from tokenizers import normalizers, pre_tokenizers

DEFAULT = Path(__file__).resolve().parent.parent / "tessera/tokenizer/hf/hf_unicode_tables.cpp"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
STABLE, COMPAT, COMPOSE, DECOMPOSE = 2, 4, 8, 16  # utf8proc's options

utf8proc = ctypes.CDLL("libutf8proc.so.2")
utf8proc.utf8proc_map.restype = ctypes.c_ssize_t
utf8proc.utf8proc_map.argtypes = [
    ctypes.c_char_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]


def by_utf8proc(text, options):
    data, out = text.encode(), ctypes.c_void_p()
    size = utf8proc.utf8proc_map(data, len(data), ctypes.byref(out), options)
    assert size >= 0
    result = ctypes.string_at(out, size).decode()
    libc.free(out)
    return result


def matched(pre_tokenizer, before=""):
    """The code points that the pre-tokenizer does not cut off from the letter before them, where
    `before` is given, and else those that it takes out as pieces of their own."""
    found = set()
    for start in range(0, len(CODE_POINTS), 4096):
        chunk = CODE_POINTS[start:start + 4096]
        for c in chunk:
            pieces = [p for p, _ in pre_tokenizer.pre_tokenize_str((before or "a") + chr(c) + "a")]
            if before and pieces and pieces[0] == before + chr(c) + "a":
                found.add(c)
            if not before and chr(c) in pieces:
                found.add(c)
    return found


def removed(normalizer):
    return {c for c in CODE_POINTS if normalizer.normalize_str("a" + chr(c) + "a") == "aa"}


def newer():
    """What utf8proc decomposes or reorders, and the other does not know. Where utf8proc changes
    nothing in these contexts there is nothing to know."""
    found = set()
    pairs = [(normalizers.NFC(), STABLE | COMPOSE), (normalizers.NFKD(), STABLE | COMPAT | DECOMPOSE)]
    for c in CODE_POINTS:
        char = chr(c)
        texts = (char, "e" + char + "\u0301", "\u0301" + char + "\u0316\u0334")
        if all(by_utf8proc(t, o) == t for t in texts for _, o in pairs):
            continue
        if any(n.normalize_str(t) != by_utf8proc(t, o) for t in texts for n, o in pairs):
            found.add(c)
    for c in found:  # it must take them for characters of which it knows nothing
        for normalizer, _ in pairs:
            text = "e" + chr(c) + "\u0301"
            assert normalizer.normalize_str(text) == text, hex(c)
    return found


def lowercase():
    """Where Rust's lower case is not that of utf8proc; one code point for one."""
    lower, pairs = normalizers.Lowercase(), {}
    for c in CODE_POINTS:
        theirs = lower.normalize_str(chr(c))
        if theirs != chr(utf8proc.utf8proc_tolower(c)) and len(theirs) == 1:
            pairs[c] = ord(theirs)
    return pairs


def ranges(points):
    out = []
    for c in sorted(points):
        # Surrogates are in no text, so a range may run over them.
        if out and (out[-1][1] + 1 == c or (out[-1][1] == 0xD7FF and c == 0xE000)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def rows(items):
    line, lines = "   ", []
    for item in items:
        if len(line) + len(item) + 1 > 100:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join(lines + [line])


def table(name, points):
    items = [f"{{0x{a:X}, 0x{b:X}}}," for a, b in ranges(points)]
    return f"const CodePointRange {name}[] = {{\n{rows(items)}\n}};\n" \
           f"const std::size_t {name}Count = std::size({name});\n"


def main():
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    clean = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    accents = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    parts = [
        "// Made by tools/make_hf_unicode_tables.py from tokenizers "
        f"{tokenizers.__version__}; not to be edited.\n"
        '#include "tessera/tokenizer/hf/hf_unicode_tables.h"\n\n#include <iterator>\n\n'
        "// clang-format off\nnamespace tessera {\n",
        table("kHfNumeric", matched(pre_tokenizers.Digits(individual_digits=True))),
        table("kHfPunctuation", matched(pre_tokenizers.Punctuation())),
        table("kHfWord", matched(pre_tokenizers.Whitespace(), "a")),
        table("kHfCleaned", removed(clean)),
        table("kHfNonspacing", removed(accents)),
        table("kHfAccents", removed(normalizers.StripAccents())),
        table("kHfUnknownToNormalization", newer()),
        "const CodePointRange kHfLowercase[] = {\n"
        + rows(f"{{0x{a:X}, 0x{b:X}}}," for a, b in sorted(lowercase().items()))
        + "\n};\nconst std::size_t kHfLowercaseCount = std::size(kHfLowercase);\n",
        "}  // namespace tessera\n",
    ]
    file.write_text("\n".join(parts))


if __name__ == "__main__":
    main()

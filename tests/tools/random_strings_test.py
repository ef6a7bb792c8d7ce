#!/usr/bin/env python3
"""The strings that tokenizers are compared by (tools/random_strings.py)."""

import sys
import unicodedata
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import random_strings  # noqa: E402
from random_strings import generator, random_bytes, random_text  # noqa: E402


def draw(make, seed, name, count=200):
    rng = generator(seed, name)
    return [make(rng) for _ in range(count)]


class RandomStringsTest(unittest.TestCase):
    def test_the_same_for_a_seed_and_a_name_and_others_for_others(self):
        first = draw(random_text, 1, "a")
        self.assertEqual(first, draw(random_text, 1, "a"))
        for seed, name in ((2, "a"), (1, "b")):
            common = set(first) & set(draw(random_text, seed, name))
            self.assertLess(len(common), len(first) / 4)

    def test_texts_are_of_many_scripts_and_planes(self):
        text = "".join(draw(random_text, 1, "a", 3000))
        names = {unicodedata.name(c, "").split(" ")[0] for c in text}
        self.assertTrue({"LATIN", "CJK", "DEVANAGARI", "ARABIC", "HANGUL", "ADLAM"} <= names)
        categories = {unicodedata.category(c) for c in text}
        self.assertTrue({"Mn", "Mc", "Nd", "Lu", "Lo", "Po", "Zs", "Cc", "Co"} <= categories)
        self.assertEqual({0, 1, 2, 3, 15, 16} - {ord(c) >> 16 for c in text}, set())
        self.assertIn("self", text)  # Python's own code

    def test_bytes_are_no_utf8_in_every_way(self):
        strings = draw(random_bytes, 1, "a", 4000)
        reasons = set()
        for data in strings:
            with self.assertRaises(UnicodeDecodeError) as caught:
                data.decode()
            reasons.add(caught.exception.reason)
        self.assertEqual(reasons, {"invalid start byte", "invalid continuation byte", "unexpected end of data"})
        for form in (b"\xc0", b"\xe0\x80", b"\xed\xa0", b"\xf0\x80", b"\xf4\x90", b"\xff"):
            self.assertTrue(any(form in data for data in strings), form)

    def test_distinct_leaves_out_what_was_seen(self):
        values, seen = iter([1, 1, 2, 3, 3, 4]), {2}
        self.assertEqual(random_strings.distinct(3, lambda: next(values), seen), [1, 3, 4])
        self.assertEqual(seen, {1, 2, 3, 4})


if __name__ == "__main__":
    unittest.main()

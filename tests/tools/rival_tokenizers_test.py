#!/usr/bin/env python3
"""The rule for bytes that are no UTF-8, as tools/rival_tokenizers.py applies it."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from rival_tokenizers import ALPHABET, characters_of, encode_kept  # noqa: E402


class RivalTokenizersTest(unittest.TestCase):
    def test_a_wrong_sequence_is_one_character(self):
        text, parts = characters_of(b"a\xff\xe4\xb8b\xe4\xb8\xad\xc0\x80")
        self.assertEqual(text, "a\ufffd\ufffdb中\ufffd\ufffd")
        self.assertEqual(parts, [b"a", b"\xff", b"\xe4\xb8", b"b", b"\xe4\xb8\xad", b"\xc0", b"\x80"])
        self.assertEqual(characters_of("é\ufffd".encode()), ("é\ufffd", [b"\xc3\xa9", b"\xef\xbf\xbd"]))

    def test_pieces_keep_their_bytes(self):
        def halves(text):
            return [(0, 2), (2, len(text))]

        self.assertEqual(encode_kept(b"a\xe4\xb8\xffb", halves, lambda piece: [piece]), [b"a\xe4\xb8", b"\xffb"])

    def test_the_alphabet_has_a_visible_character_for_each_byte(self):
        self.assertEqual(len(set(ALPHABET)), 256)
        self.assertEqual((ALPHABET[0x20], ALPHABET[0x41], ALPHABET[0xFF]), ("Ġ", "A", "ÿ"))


if __name__ == "__main__":
    unittest.main()

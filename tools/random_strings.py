"""Random strings to compare tokenizers by: all planes of Unicode, words of many scripts, real code
and prose, runs of whitespace, and bytes that are no UTF-8."""

import functools
import random
import sysconfig
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WORDS = """'s 'T 'Ll 're 'ſ 'VE 'd don't I'm hello World ABCdef iPhone naïve é e\u0301 \u0301 ǅ ʰ 中文
日本語 한국어 абв ДЕ Ελλάδα עברית العربية हिन्दी ไทย 123 4567 ٣ ½ Ⅷ ! ... / // \\ <|endoftext|> </s> 🙂 👨‍👩‍👧 🇩🇪
\u0000 \uffff \ufeff \U000e0001 _ a_b { } == x1y2 ' '' " # @user https://a.b/c?d=e&f=1.5e-3 int i=0;
for(;;) if(!x)return; def f(self): <b> &amp; $5.00 100% C++ ß ﬁ İ ı K ſ <x> <word> Hello ▁ ▁the fox
abcabcd bcdab cabcab [CLS] [SEP] [MASK] [UNK] <extra_id_7>""".split()
SPACES = [" ", "  ", "    ", "\t", "\n", "\r", "\r\n", "\n\n", " \n ", "\u00a0", "\u3000", "\u2028"]
SPACES += ["\x85", "\u200b", "\u180e", "\x1c", "\x0b"]
PLANES = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF)]
PLANES += [(0x20000, 0x3FFFF), (0x40000, 0x10FFFF)]
COMMON_MARKS = [chr(c) for c in range(0x300, 0x370)]
# Bytes that begin no character, or one that is too long, a surrogate, or beyond U+10FFFF: first,
# and the ranges of those behind it.
BAD_FORMS = [
    ((0x80, 0xBF),), ((0xF5, 0xFF),), ((0xC0, 0xC1), (0x80, 0xBF)), ((0xE0, 0xE0), (0x80, 0x9F), (0x80, 0xBF)),
    ((0xF0, 0xF0), (0x80, 0x8F), (0x80, 0xBF), (0x80, 0xBF)), ((0xED, 0xED), (0xA0, 0xBF), (0x80, 0xBF)),
    ((0xF4, 0xF4), (0x90, 0xBF), (0x80, 0xBF), (0x80, 0xBF)),
]


def random_character(rng):
    return chr(rng.randint(*rng.choice(PLANES)))


def mixed_text(rng):
    """Words, characters of all planes and whitespace."""
    parts = []
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        if kind < 0.3:
            parts.append(rng.choice(SPACES))
        elif kind < 0.7:
            parts.append(rng.choice(WORDS))
        elif kind < 0.85:
            parts.append(random_character(rng))
        else:
            parts.append("".join(chr(rng.randint(97, 122)) for _ in range(rng.randint(1, 9))))
    return "".join(parts)


@functools.cache
def real_text():
    """The repository's own files and Python's library: code and prose, in one text."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    for folder in ("apps", "tessera", "tests", "tools"):
        files += [f for f in (ROOT / folder).rglob("*") if f.suffix in (".h", ".cpp", ".cu", ".py", ".sh")]
    library = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"site-packages", "dist-packages", "test", "tests"}
    files += [f for f in library.rglob("*.py") if left_out.isdisjoint(f.parts[len(library.parts):])]
    return "\n".join(file.read_text(errors="replace") for file in sorted(files))


def some_real_text(rng):
    """A few lines, or a part of them; now and then with something put into it."""
    text = real_text()
    begin = rng.randrange(len(text))
    if rng.random() < 0.5:
        begin = text.rfind("\n", 0, begin) + 1
    text = text[begin:begin + 1 + int(rng.expovariate(1 / 50))]
    if rng.random() < 0.3:
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice([rng.choice(SPACES), rng.choice(WORDS), random_character(rng)]) + text[at:]
    return text


@functools.cache
def scripts():
    """(letters, marks, digits) of each, told by the first word of the characters' names."""
    found = {}
    for c in map(chr, range(0x110000)):
        kind = "LMN".find(unicodedata.category(c)[0])
        if kind >= 0 and (name := unicodedata.name(c, "")):
            found.setdefault(name.split()[0], ([], [], []))[kind].append(c)
    return [(letters, marks or COMMON_MARKS, digits or list("0123456789"))
            for letters, marks, digits in found.values() if len(letters) >= 10]


@functools.cache
def punctuation():
    return [c for c in map(chr, range(0x110000)) if unicodedata.category(c)[0] in "PS"]


def script_word(rng, letters, marks):
    word = rng.choices(letters, k=1 + int(rng.expovariate(1 / 4)))
    while rng.random() < 0.4:
        word.insert(rng.randint(0, len(word)), rng.choice(marks if rng.random() < 0.8 else COMMON_MARKS))
    return "".join(word)


def script_text(rng):
    """Words, numbers and punctuation of one script, and sometimes of a second."""
    chosen = rng.choices(scripts(), k=1 if rng.random() < 0.7 else 2)
    space = "" if rng.random() < 0.2 else " "
    parts = []
    for _ in range(rng.randint(1, 7)):
        letters, marks, digits = rng.choice(chosen)
        kind = rng.random()
        if kind < 0.7:
            parts.append(script_word(rng, letters, marks))
        elif kind < 0.85:
            parts.append("".join(rng.choices(digits, k=rng.randint(1, 6))))
        else:
            parts.append(rng.choice(".,:;!?()\"'-" if rng.random() < 0.5 else punctuation()))
        parts.append(space)
    return "".join(parts)


def random_text(rng):
    kind = rng.random()
    return mixed_text(rng) if kind < 0.4 else some_real_text(rng) if kind < 0.7 else script_text(rng)


def bad_bytes(rng):
    kind = rng.random()
    if kind < 0.3:
        return rng.randbytes(rng.randint(1, 4))
    if kind < 0.6:  # the beginning of a character
        whole = chr(rng.randint(*rng.choice(PLANES[1:]))).encode()
        return whole[:rng.randint(1, len(whole) - 1)]
    return bytes(rng.randint(*part) for part in rng.choice(BAD_FORMS))


def random_bytes(rng):
    """A text with bytes in it that are no UTF-8. They may also cut a character in two."""
    while True:
        data = random_text(rng).encode()
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(data))
            data = data[:at] + bad_bytes(rng) + data[at:]
        try:
            data.decode()
        except UnicodeDecodeError:
            return data


def distinct(count, draw, seen):
    """So many from draw() that are not in `seen`, which they are added to."""
    found = []
    while len(found) < count:
        value = draw()
        if value not in seen:
            seen.add(value)
            found.append(value)
    return found


def generator(seed, name):
    """Random numbers of a seed and a name, the same on every machine."""
    return random.Random(f"{seed} {name}")

"""Text that is on every machine, as lists of documents."""

import os
import random
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The first and the last letter of alphabets, and how words of each are told apart.
SCRIPTS = {
    "а-я": " ", "α-ω": " ", "א-ת": " ", "ا-ي": " ", "अ-ह": " ", "ก-ฮ": "", "一-龥": "", "ぁ-ん": "",
    "가-힣": " ", "a-z": " ", "à-ÿ": " ",
}


def files_below(folder, endings, skipped=()):
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in skipped and not f.startswith("."))
        for name in sorted(names):
            if name.endswith(endings) and os.path.isfile(os.path.join(path, name)):
                yield Path(path) / name


def read_documents(paths):
    """Without the text of special tokens, which rivals treat in ways of their own."""
    for path in paths:
        text = path.read_bytes().decode("utf-8", errors="ignore").replace("<|endoftext|>", "")
        if text:
            yield text


def code():
    """This repository's documents and sources, and Python's standard library."""
    paths = [*ROOT.glob("*.md"), *files_below(ROOT / "docs", (".md",))]
    for folder in ("tessera", "apps", "tests", "bench", "tools"):
        paths += files_below(ROOT / folder, (".h", ".cpp", ".cu", ".py"), ("data", "golden"))
    library = Path(sysconfig.get_paths()["stdlib"])
    paths += files_below(library, (".py",), ("site-packages", "dist-packages", "test", "lib2to3"))
    return list(read_documents(paths))


def prose():
    """English: the licences, manuals and change logs of the machine's packages, where it has them."""
    return list(read_documents(files_below("/usr/share/doc", ("copyright", ".txt", ".md", "README"))))


def languages(documents=1500, seed=1):
    """Made-up words in many scripts, some of them far more frequent than others."""
    rng = random.Random(seed)
    texts = []
    vocabularies = []
    for letters, space in SCRIPTS.items():
        first, last = map(ord, letters.split("-"))
        # Of large alphabets some letters are common.
        usual = [chr(rng.randint(first, last)) for _ in range(min(400, last - first + 1))]
        words = ["".join(rng.choices(usual, k=rng.randint(1, 9))) for _ in range(4000)]
        weights = [1 / (rank + 3) for rank in range(len(words))]
        vocabularies.append((words, weights, space))
    for number in range(documents):
        words, weights, space = vocabularies[number % len(vocabularies)]
        sentences = []
        for _ in range(rng.randint(5, 60)):
            sentence = space.join(rng.choices(words, weights, k=rng.randint(4, 20)))
            sentences.append(sentence + rng.choice([". ", "? ", ", 12 345. ", ".\n"]))
        texts.append("".join(sentences))
    return texts


TEXTS = {"code": code, "prose": prose, "languages": languages}

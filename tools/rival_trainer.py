"""Compares `tessera train-tokenizer` with the BpeTrainer of tokenizers: vocabulary and merges."""

import json
import random
import subprocess

from rival_tokenizers import HF_PATTERNS, WORDS, corpus


def training_texts(seed):
    """Texts with many pairs that are equally frequent, and with many ways to the same token."""
    rng = random.Random(seed)

    def words(letters, count, longest):
        return " ".join("".join(rng.choices(letters, k=rng.randint(1, longest))) for _ in range(count))

    yield "repository", "\n".join(corpus())
    yield "two letters", words("ab", 3000, 12)
    yield "four letters", words("abcd", 3000, 8)
    yield "one letter", words("a", 300, 40)
    yield "equal counts", words("abcdefghijklmnopqrstuvwxyz", 400, 6)
    # Not at its start: there it is a byte order mark, which we drop.
    yield "languages", "a " + " ".join(rng.choices(WORDS, k=2000))
    yield "digits and spaces", "".join(rng.choices("0123 \n\t.", k=20000))


def rival_model(text, pattern, size):
    """(vocabulary, merges) of tokenizers."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern == "gpt2")
    split = [] if pattern == "gpt2" else [pre_tokenizers.Split(Regex(HF_PATTERNS[pattern][0]), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level])
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], model["merges"]


def our_model(program, folder, text, pattern, size):
    (folder / "text.txt").write_bytes(text.encode())
    output = folder / "trained.json"
    output.unlink(missing_ok=True)
    subprocess.run(
        [program, "train-tokenizer", "--input", folder / "text.txt", "--vocab-size", str(size), "--pattern", pattern,
         "--output", output], check=True, capture_output=True)
    model = json.loads(output.read_text())["model"]
    return model["vocab"], model["merges"]


def first_difference(expected, found):
    for i, pair in enumerate(zip(expected, found)):
        if pair[0] != pair[1]:
            return f"at {i}: expected {pair[0]}, got {pair[1]}"
    return f"expected {len(expected)}, got {len(found)}"


def write_trainer_golden(file):
    """Small texts, and the tokens that tokenizers makes of them besides the special one and the bytes."""
    cases = []
    for name, text in training_texts(1):
        if name in ("two letters", "equal counts", "languages"):
            text = text[:1500]
            for pattern in ("gpt2", "llama3"):
                vocab, merges = rival_model(text, pattern, 360)
                tokens = sorted(vocab, key=vocab.get)
                cases.append({"text": text, "pattern": pattern, "tokens": tokens[257:], "merges": merges})
    file.write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")) + "\n")


def compare_trainers(program, folder, seed):
    """How many models are not equal."""
    compared, wrong = 0, 0
    for name, text in training_texts(seed):
        for pattern in ("gpt2", "llama3"):
            for size in (300, 700, 3000):
                expected = rival_model(text, pattern, size)
                found = our_model(program, folder, text, pattern, size)
                compared += 1
                if expected == found:
                    continue
                wrong += 1
                by_number = [sorted(each[0], key=each[0].get) for each in (expected, found)]
                print(f"trainer, {name}, {pattern}, {size}: tokens {first_difference(*by_number)}; "
                      f"merges {first_difference(expected[1], found[1])}")
    print(f"trainer: {compared} models, {wrong} differ", flush=True)
    return wrong

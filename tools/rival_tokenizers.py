"""Tokenizers of every kind, made by the programs that Tessera's tokens are compared with.

Each is trained on the repository's own text, and written to a folder for both sides to use.
tests/tokenizer/make_goldens.py makes small ones, which are used here too.
"""

import base64
import json
import re
import sys

from random_strings import ROOT, WORDS

sys.path.append(str(ROOT / "tests" / "tokenizer"))

LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PREFIX = r"[^\r\n\p{L}\p{N}]?"


def gpt4(digits):
    return (
        CONTRACTION + "|" + PREFIX + r"\p{L}+|" + digits +
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def gpt4o(digits, suffix):
    upper, lower = LETTERS
    return (
        f"{PREFIX}{upper}*{lower}+{suffix}|{PREFIX}{upper}+{lower}*{suffix}|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


# Each is split by one after the other.
HF_PATTERNS = {
    "llama3": [gpt4(r"\p{N}{1,3}")],
    "qwen2": [gpt4(r"\p{N}")],
    "o200k": [gpt4o(r"\p{N}{1,3}", CONTRACTION + "?")],
    "tekken": [gpt4o(r"\p{N}", "")],
    "deepseek": [
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"""
        r"""[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    ],
    "words": [r"\w+|[^\w\s]+"],
    "digits": [r"\d{1,3}(?=(?:\d{3})*\b)"],
}


def tiktoken_patterns():
    import tiktoken_ext.openai_public as openai

    # The ranks of the published ones would be fetched; only their patterns are wanted.
    openai.load_tiktoken_bpe = lambda *_, **__: {}
    return {
        "gpt2": openai.r50k_pat_str,
        "cl100k": openai.cl100k_base()["pat_str"],
        "o200k": openai.o200k_base()["pat_str"],
        "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        "v2": gpt4o(r"\p{N}", ""),
    }


def gpt2_alphabet():
    """The character that stands for each byte in GPT-2's files."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b if b in printable else 256 + others.index(b)) for b in range(256)]


ALPHABET = gpt2_alphabet()
NO_SPECIAL = "--tokenizer-hf-no-include-special-tokens"


def corpus():
    files = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tessera/base/*.cpp")])
    return [f.read_text() for f in files] + [" ".join(WORDS)]


def lines():
    """For trainers that take a text as a whole: Unigram's, and those that do not split."""
    return [line for text in corpus() for line in text.splitlines() if line.strip()]


class Kind:
    """A tokenizer: flags for Tessera, and what its original makes of many texts at once.

    `encode_bytes` is the same for bytes that are no UTF-8, by the rule of docs/tokenizers.md, which
    `keeps` them or not. `exact`: each text comes back as it was.
    """

    def __init__(self, name, flags, encode, decode, encode_bytes, keeps=False, exact=False):
        self.name, self.flags, self.encode, self.decode = name, flags, encode, decode
        self.encode_bytes, self.keeps, self.exact = encode_bytes, keeps, exact


def characters_of(data):
    """(text, bytes of each character): a wrong sequence, as Python's decoder has it, is one U+FFFD."""
    text, parts, at = "", [], 0
    while at < len(data):
        try:
            valid, bad = data[at:].decode(), b""
        except UnicodeDecodeError as error:
            valid, bad = data[at:at + error.start].decode(), data[at + error.start:at + error.end]
        text += valid + "\ufffd" * bool(bad)
        parts += [c.encode() for c in valid] + [bad] * bool(bad)
        at += len(valid.encode()) + len(bad)
    return text, parts


def encode_kept(data, split, encode_piece):
    """Cut where the text with U+FFFD is cut, but with the bytes as they are."""
    text, parts = characters_of(data)
    ids = []
    for begin, end in split(text):
        ids += encode_piece(b"".join(parts[begin:end]))
    return ids


def hf_kind(folder, name, tokenizer, exact=False, special=True):
    from tokenizers import Tokenizer

    path = folder / f"{name}.json"
    tokenizer.save(str(path))
    tokenizer = Tokenizer.from_file(str(path))  # the caller may go on to change its own
    flags = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", str(path)]
    return from_hf(f"hf-{name}", flags + ([] if special else [NO_SPECIAL]), tokenizer, exact, special)


def from_hf(name, flags, tokenizer, exact=False, special=True):
    def encode(texts):
        return [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=special)]

    def decode(ids):
        return tokenizer.decode_batch(ids, skip_special_tokens=False)

    def encode_bytes(strings):
        return encode([data.decode(errors="replace") for data in strings])

    return Kind(name, flags, encode, decode, encode_bytes, exact=exact)


def train_bpe(pre_tokenizer, size, special=()):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    return tokenizer


def gpt2_kinds(folder, size):
    from tokenizers import pre_tokenizers

    tokenizer = train_bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), size)
    tokenizer.model.save(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    vocabulary["<|endoftext|>"] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    flags = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", str(folder / "vocab.json")]
    flags += ["--merge-file", str(folder / "merges.txt")]

    def split(text):
        return [place for _, place in tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    def encode_piece(piece):
        return [token.id for token in tokenizer.model.tokenize("".join(ALPHABET[b] for b in piece))]

    yield Kind("gpt2", flags, lambda texts: [e.ids for e in tokenizer.encode_batch_fast(texts)],
               tokenizer.decode_batch, lambda strings: [encode_kept(s, split, encode_piece) for s in strings],
               keeps=True, exact=True)


def bytes_of(token):
    return bytes(ALPHABET.index(c) for c in token)


def tiktoken_kind(name, flags, pattern, ranks, special):
    import regex  # which tiktoken has
    import tiktoken

    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    pieces = regex.compile(pattern)
    specials = re.compile("|".join(map(re.escape, special)))
    numbers = {text.encode(): [number] for text, number in special.items()}

    def split(text):
        begin = 0
        for found in [*specials.finditer(text), None]:
            end = found.start() if found else len(text)
            for piece in pieces.finditer(text[begin:end]):
                yield begin + piece.start(), begin + piece.end()
            if found:
                yield found.span()
                begin = found.end()

    def encode_piece(piece):  # also a special token, which never is a part of another piece
        return numbers.get(piece) or encoding._encode_single_piece(piece)

    return Kind(
        f"tiktoken-{name}", ["--tokenizer-type", "TikTokenizer", *flags],
        lambda texts: encoding.encode_batch(texts, num_threads=2, allowed_special="all"),
        lambda ids: [encoding.decode(i) for i in ids],
        lambda strings: [encode_kept(s, split, encode_piece) for s in strings], keeps=True, exact=True)


def tiktoken_kinds(folder, size):
    from tokenizers import pre_tokenizers

    trained = train_bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), size).get_vocab()
    ranks = sorted(((bytes_of(token), rank) for token, rank in trained.items()), key=lambda x: x[1])
    coded = [base64.b64encode(token).decode() for token, _ in ranks]
    path = folder / "ranks.tiktoken"
    path.write_text("".join(f"{token} {rank}\n" for rank, token in enumerate(coded)))
    special = {"<|endoftext|>": len(ranks)}
    patterns = tiktoken_patterns()
    for name, pattern in patterns.items():
        flags = ["--tokenizer-model", str(path), "--tiktoken-pattern", name]
        yield tiktoken_kind(name, flags, pattern, dict(ranks), special)
    # Megatron's list: special tokens, then these. With its 1000 tiktoken itself would take long.
    path = folder / "ranks.json"
    entries = [{"rank": rank, "token_bytes": token, "token_str": ""} for rank, token in enumerate(coded)]
    path.write_text(json.dumps(entries))
    named = ["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"]
    named += [f"<SPECIAL_{i}>" for i in range(len(named), 10)]
    flags = ["--tokenizer-model", str(path), "--tiktoken-num-special-tokens", str(len(named))]
    yield tiktoken_kind("list", flags, patterns["v2"],
                        {token: rank + len(named) for token, rank in ranks},
                        {token: i for i, token in enumerate(named)})


def hf_bytes_kinds(folder, size):
    """Byte-level BPE with the published patterns."""
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

    special = ["<|endoftext|>"]
    plain = train_bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), size, special)
    yield hf_kind(folder, "gpt2", plain, exact=True)
    for name, patterns in HF_PATTERNS.items():
        steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        tokenizer = train_bpe(pre_tokenizers.Sequence(steps), size, special)
        if name == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        if name == "llama3":  # words that no merge leads to are found as a whole
            document = json.loads(tokenizer.to_str())
            document["model"]["ignore_merges"] = True
            del document["model"]["merges"][3::7]
            tokenizer = Tokenizer.from_str(json.dumps(document))
        yield hf_kind(folder, name, tokenizer, exact=name != "qwen2")


def gemma(make):
    """Spaces are written as U+2581 and end a piece; runs of new lines are tokens of their own."""
    from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers, processors

    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = make.bpe(lines(), normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                         decoder, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    tokenizer = make.without_added(tokenizer, ("<unk>", "<s>", "</s>"))
    tokenizer.add_tokens([AddedToken("\n" * n, normalized=False) for n in (2, 3, 4)])
    tokenizer.add_tokens([AddedToken("▁▁", normalized=False), AddedToken("<b>", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def charsmap(model):
    """The table of replacements in a SentencePiece model: field 2 of field 3."""

    def field(data, wanted):
        at = 0

        def number():
            nonlocal at
            value, shift = 0, 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        while at < len(data):
            key = number()
            if key & 7 == 2:
                length = number()
                if key >> 3 == wanted:
                    return data[at:at + length]
                at += length
            elif key & 7 == 5:
                at += 4
            else:
                number()
        raise ValueError(f"field {wanted} is missing")

    return field(field(model, 3), 2)


def xlm_roberta(make):
    """Unigram after SentencePiece's own table (NFKC, mostly)."""
    import io

    import sentencepiece
    from tokenizers import Regex, normalizers

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()), model_writer=model, vocab_size=300, minloglevel=2,
        hard_vocab_limit=False, character_coverage=0.98)
    tokenizer = make.unigram(lines(), False)
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(charsmap(model.getvalue())), normalizers.Replace(Regex(" {2,}"), " ")])
    return tokenizer


def hf_kinds(folder, _size):
    """All that is not byte-level, and added tokens of all sorts."""
    import make_goldens as make
    from tokenizers import pre_tokenizers

    texts = lines()
    yield hf_kind(folder, "added", make.gpt2(texts))
    yield hf_kind(folder, "added-llama3", make.llama3(texts))
    yield hf_kind(folder, "llama2", make.llama2(texts))
    yield hf_kind(folder, "metaspace", make.metaspace(texts))
    yield hf_kind(folder, "suffix", make.suffix(texts))
    yield hf_kind(folder, "gemma", gemma(make))
    yield hf_kind(folder, "unigram", make.unigram(texts, False))
    yield hf_kind(folder, "unigram-bytes", make.unigram(texts, True))
    yield hf_kind(folder, "unigram-charsmap", xlm_roberta(make))
    bert = make.wordpiece(texts, True)
    yield hf_kind(folder, "bert", bert)
    yield hf_kind(folder, "bert-plain", bert, special=False)
    cased = make.wordpiece(texts, False)
    yield hf_kind(folder, "wordpiece", cased)
    cased.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    yield hf_kind(folder, "bert-cased", cased)
    for name, lowercase in {"BertWordPieceLowerCase": True, "BertWordPieceCase": False}.items():
        out = folder / name
        out.mkdir()
        tokenizer = make.bert_files(texts, lowercase, out)
        flags = ["--tokenizer-type", name, "--vocab-file", str(out / "vocab.txt")]
        yield from_hf(name, flags, tokenizer)
        yield from_hf(f"{name}-plain", [*flags, NO_SPECIAL], tokenizer, special=False)


def sentencepiece_kinds(folder, size):
    import sentencepiece

    text = folder / "corpus.txt"
    text.write_text("\n".join(corpus()))
    user = {"user_defined_symbols": ["<x>", "fox", "▁the", "中", "ab", "bc", "abc", "bcd", "ca"]}
    whole = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}  # as Llama's
    for name, options in {
            "bpe": {}, "unigram": {}, "bpe-user": user, "unigram-user": user,
            "bpe-llama": {**whole, "split_digits": True}, "unigram-llama": whole,
            "bpe-unknown": {"byte_fallback": False, "add_dummy_prefix": False},
            "unigram-unknown": {"byte_fallback": False, "add_dummy_prefix": False}}.items():
        prefix = folder / f"sp_{name}"
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(prefix), vocab_size=size, minloglevel=2,
            model_type=name.split("-")[0], hard_vocab_limit=False,
            **{"byte_fallback": True, **options},
        )
        processor = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
        begins = name == "bpe-llama"
        flags = ["--tokenizer-type", "Llama2Tokenizer" if begins else "SentencePieceTokenizer"]
        flags += ["--tokenizer-model", f"{prefix}.model"]

        def encode(texts, processor=processor, begins=begins):  # bytes, too
            return processor.encode(texts, add_bos=begins, num_threads=2)

        yield Kind(f"sentencepiece-{name}", flags, encode,
                   lambda ids, p=processor: [p.decode(i) for i in ids], encode)


KINDS = {
    "gpt2": gpt2_kinds,
    "tiktoken": tiktoken_kinds,
    "hf-bytes": hf_bytes_kinds,
    "hf": hf_kinds,
    "sentencepiece": sentencepiece_kinds,
}

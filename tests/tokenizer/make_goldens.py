#!/usr/bin/env python3
"""Makes the tokenizers of tests/tokenizer/golden, and what their originals make of many strings.

usage: tests/tokenizer/make_goldens.py [OUT]     (needs tokenizers 0.23.3 and sentencepiece 0.2.2)

OUT/strings.json holds the strings; OUT/<name>/ a tokenizer.json, tokenizer.model or BERT's vocab.txt,
and golden.json: for each string its tokens, those with special tokens ("special", of Hugging Face's
only), and the text that the tokens decode to.
"""

import io
import json
import random
import sys
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, BertWordPieceTokenizer, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

DATA = Path(__file__).resolve().parent / "golden"
COUNT = 420

WORDS = """the quick brown fox jumps over lazy dog Hello World don't can't I'm they've it's we'll
naïve café résumé Straße ÅNGSTRÖM İstanbul ﬁne ﬀ ① ½ Ⅷ ｆｕｌｌ １２３ 한국어 日本語 東京 中文字符 русский
العربية עברית हिन्दी क्षि ไทย ภาษา ελληνικά Ελλάς tiếng Việt 🎉 👨‍👩‍👧‍👦 🇩🇪 👍🏽 1234567890 3.14
x=1; foo_bar(baz) {"k":[1,2]} <b>bold</b> http://a.b/c?d=e#f C++ #define @user ### ... !!! -- —
<s> </s> <unk> <pad> <0x41> [CLS] [SEP] [MASK] <|endoftext|> <x> <word> ▁ ▁▁ _ ## ##ing""".split()
ODD = ["", " ", "  ", "\t", "\n", "\r\n", "\n\n\n", " \n ", "\u00a0", "\u3000", "\u200b", "\u200d",
       "\ufeff", "\u00ad", "\u2028", "\x00", "\x01\x02", "\x7f", "\x85", "\u180e", "\ufffd",
       "\U0010ffff", "\ue000", "\u0301", "e\u0301", "a\u0308\u0323", "\u2581", "\u1680", "\u115f",
       "\uac00\u11a8", "\u1100\u1161\u11a8", "\U0001d400", "\U00020000", "\U00011938", "\u08d3"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# A small table of replacements, as SentencePiece's trainer takes it: code points in, code points out.
RULES = "9\t20\nA\t20\nA0\t20\n3000\t20\nFB01\t66 69\nBD\t31 2044 32\n2460\t31\n7F\t\nFF11\t31\n41 30A\tC5\n"


def strings():
    random.seed(20)
    texts = ODD + WORDS + ["a" * 300, " " * 50, "ab" * 100, "é" * 60, "日" * 80, "🎉" * 20]
    texts += [odd + word for odd in ODD[1:16] for word in ("a", " b", "<word>")]
    ends = [" ", " ", " ", "", "  ", "\n", "\t", ", "]
    while len(texts) < COUNT:
        kind = random.random()
        if kind < 0.4:
            parts = [random.choice(WORDS) + random.choice(ends) for _ in range(random.randint(1, 8))]
        elif kind < 0.7:
            parts = random.choices(ODD + WORDS, k=random.randint(1, 6))
        elif kind < 0.85:
            planes = [(0, 127), (0, 0x2FF), (0x300, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]
            parts = [chr(random.randint(*random.choice(planes))) for _ in range(random.randint(1, 8))]
        else:
            parts = random.choices("abcde  \n'.,1", k=random.randint(1, 20))
        texts.append("".join(parts))
    return texts


def added():
    return [AddedToken("<|endoftext|>", special=True, normalized=False),
            AddedToken("<x>", lstrip=True, rstrip=True, special=True, normalized=False),
            AddedToken("<word>", single_word=True, normalized=True),
            AddedToken("Hello", normalized=True)]


def bpe(texts, normalizer, pre_tokenizer, decoder, byte_level=False, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    special = ["<unk>", "<s>", "</s>"]
    if options.get("byte_fallback"):
        special += [f"<0x{b:02X}>" for b in range(256)]
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    trainer = trainers.BpeTrainer(vocab_size=len(special) + 450, special_tokens=special,
                                  initial_alphabet=alphabet, limit_alphabet=256, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def without_added(tokenizer, keep=()):
    """Tokens that training needed to be special are plain again."""
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [t for t in document["added_tokens"] if t["content"] in keep]
    return Tokenizer.from_str(json.dumps(document))


def gpt2(texts):
    tokenizer = bpe(texts, None, pre_tokenizers.ByteLevel(add_prefix_space=True),
                    decoders.ByteLevel(), byte_level=True)
    tokenizer.add_tokens(added())
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return tokenizer


def llama3(texts):
    split = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = bpe(texts, normalizers.NFC(), split, decoders.ByteLevel(), byte_level=True,
                    ignore_merges=True)
    tokenizer.add_tokens(added())
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A", pair="$A $B", special_tokens=[("<s>", 1)])])
    return tokenizer


def llama2(texts):
    normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                 decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = bpe([" " + t for t in texts], normalizers.Replace(" ", "▁"), None, decoder,
                    byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    tokenizer.normalizer = normalizer
    return without_added(tokenizer, ("<unk>", "<s>", "</s>"))


def metaspace(texts):
    tokenizer = bpe(texts, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=True),
                    decoders.Metaspace(prepend_scheme="first"), unk_token="<unk>", fuse_unk=True)
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.add_tokens(added())
    return tokenizer


def suffix(texts):
    split = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Split("o", "merged_with_previous"),
        pre_tokenizers.Split(Regex("[aeu]"), "merged_with_next")])
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], limit_alphabet=150,
                                  end_of_word_suffix="</w>", show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def wordpiece(texts, lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = \
        pre_tokenizers.BertPreTokenizer() if lowercase else pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=lowercase)
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, limit_alphabet=200,
                                        show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def bert_files(texts, lowercase, out):
    """BERT's vocab.txt in a folder, and its tokenizer with the tokens that Megatron adds to the cased one."""
    tokenizer = BertWordPieceTokenizer(lowercase=lowercase)
    tokenizer.train_from_iterator(texts, vocab_size=500, limit_alphabet=200, show_progress=False)
    tokenizer.save_model(str(out))
    tokenizer = BertWordPieceTokenizer(str(out / "vocab.txt"), lowercase=lowercase)
    if not lowercase:
        tokenizer.add_special_tokens([f"<extra_id_{i}>" for i in range(100)])
    return Tokenizer.from_str(tokenizer.to_str())


def unigram(texts, fallback):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"],
                                      unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator([t for t in texts if len(t) < 120], trainer)
    document = json.loads(tokenizer.to_str())
    vocab = document["model"]["vocab"]
    document["model"]["vocab"] = [e for e in vocab if len(e[0]) > 1 or ord(e[0]) < 0x400 or e[0] == "▁"]
    if fallback:
        document["model"]["byte_fallback"] = True
        document["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
        document["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "ByteFallback"}, document["decoder"]]}
    return Tokenizer.from_str(json.dumps(document))


def sentencepiece_model(texts, **options):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write(RULES)
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([t for t in texts if t.strip() and "\0" not in t]),
            model_writer=model, hard_vocab_limit=False, minloglevel=2, num_threads=1,
            character_coverage=0.98, normalization_rule_tsv=rules.name, **options)
    return model.getvalue()


def write_hf(out, tokenizer, texts):
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    (out / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False))
    write_hf_golden(out, tokenizer, texts)


def write_hf_golden(out, tokenizer, texts):
    plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
    special = [tokenizer.encode(t).ids for t in texts]
    decoded = [tokenizer.decode(ids, skip_special_tokens=False) for ids in plain]
    (out / "golden.json").write_text(json.dumps(
        {"ids": plain, "special": special if special != plain else [], "decoded": decoded},
        separators=(",", ":"), ensure_ascii=False))


def write_sentencepiece(out, model, texts):
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = [processor.encode(t) for t in texts]
    (out / "golden.json").write_text(json.dumps(
        {"ids": ids, "special": [], "decoded": [processor.decode(i) for i in ids]},
        separators=(",", ":"), ensure_ascii=False))


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    out.mkdir(parents=True, exist_ok=True)
    texts = strings()
    (out / "strings.json").write_text(json.dumps(texts))
    for name, tokenizer in {
            "gpt2": gpt2(texts), "llama3": llama3(texts), "llama2": llama2(texts),
            "metaspace": metaspace(texts), "suffix": suffix(texts),
            "bert": wordpiece(texts, True), "wordpiece": wordpiece(texts, False),
            "unigram": unigram(texts, False), "unigram_bytes": unigram(texts, True)}.items():
        write_hf(out / name, tokenizer, texts)
    for name, lowercase in {"bert_lowercase": True, "bert_cased": False}.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        write_hf_golden(out / name, bert_files(texts, lowercase, out / name), texts)
    user = ["<x>", "fox", "▁the"]
    for name, options in {
            "sp_unigram": dict(model_type="unigram", vocab_size=500),
            "sp_unigram_bytes": dict(model_type="unigram", vocab_size=700, byte_fallback=True,
                                     user_defined_symbols=user, remove_extra_whitespaces=False),
            "sp_bpe": dict(model_type="bpe", vocab_size=600, user_defined_symbols=user),
            "sp_bpe_bytes": dict(model_type="bpe", vocab_size=900, byte_fallback=True,
                                 add_dummy_prefix=False, split_digits=True)}.items():
        write_sentencepiece(out / name, sentencepiece_model(texts, **options), texts)


if __name__ == "__main__":
    main()

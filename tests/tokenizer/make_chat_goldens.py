#!/usr/bin/env python3
"""Makes tests/tokenizer/chat: what transformers' chat templates make of conversations.

usage: tests/tokenizer/make_chat_goldens.py [OUT]     (needs transformers, jinja2)

OUT/<name>.json are tokenizers: those of golden/ with the special tokens of the presets. OUT/golden.json
has for each case the tokenizer, the preset, the messages, the tokens and which of them the assistant says.
Contents hold nothing that looks like a special token (transformers would take it for one), and the
assistant's do not begin with white space, which transformers may join with what stands before it.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eot_id|>", "<bos>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<s>", "</s>"]


def turns(begin, role, content, end, rest=""):
    """A template of one form for all roles. What is generated is the content and what ends it."""
    return (f"{begin}{{% for m in messages %}}{role}"
            f"{{% if m['role'] == 'assistant' %}}{{% generation %}}{{{{ {content} + '{end}' }}}}"
            f"{{% endgeneration %}}{{% else %}}{{{{ {content} + '{end}' }}}}{{% endif %}}{rest}{{% endfor %}}")


TEMPLATES = {
    "chatml": turns("", "{{ '<|im_start|>' + m['role'] + '\\n' }}", "m['content']", "<|im_end|>", "{{ '\\n' }}"),
    "llama3": turns("{{ '<|begin_of_text|>' }}",
                    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' }}",
                    "m['content']|trim", "<|eot_id|>"),
    "gemma": turns("{{ '<bos>' }}",
                   "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' }}",
                   "m['content']|trim", "<end_of_turn>", "{{ '\\n' }}"),
    "mistral": ("{{ '<s>' }}{% for m in messages %}{% if m['role'] == 'user' %}"
                "{{ '[INST] ' + m['content'] + '[/INST]' }}{% else %}"
                "{% generation %}{{ ' ' + m['content']|trim + '</s>' }}{% endgeneration %}{% endif %}{% endfor %}"),
}
ROLES = {"chatml": ["system", "user", "tool"], "llama3": ["system", "user"], "gemma": ["user"],
         "mistral": ["user"]}
# Of the second tokenizer words begin with a space, which every stretch of text gets anew; only of
# "mistral" a special token stands before what the assistant says.
TOKENIZERS = {"bytes": ("llama3", ["chatml", "llama3", "gemma", "mistral"]), "pieces": ("llama2", ["mistral"])}
WORDS = ["Hello", "don't", "naïve", "日本語", "🎉", "12345", "x = 1;", "café\n", "\n\n", "  ", "\t", "!", "user",
         "<b>", "русский", "…", "[", "INST", "<|", "|>", "\u3000", "A"]


def conversations(roles):
    random.seed(7)
    text = lambda: "".join(random.choice(WORDS) + random.choice([" ", "", "\n"])
                           for _ in range(random.randint(0, 7)))
    yield [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]
    yield [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
    for _ in range(12):
        messages = []
        for _ in range(random.randint(1, 3)):
            messages.append({"role": random.choice(roles), "content": text()})
            messages.append({"role": "assistant", "content": text().lstrip()})
        yield messages


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "chat"
    out.mkdir(exist_ok=True)
    cases = []
    for name, (base, presets) in TOKENIZERS.items():
        tokenizer = Tokenizer.from_file(str(HERE / "golden" / base / "tokenizer.json"))
        tokenizer.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in SPECIAL])
        tokenizer.save(str(out / f"{name}.json"), pretty=False)
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
        for preset in presets:
            for messages in conversations(ROLES[preset]):
                made = fast.apply_chat_template(messages, chat_template=TEMPLATES[preset], tokenize=True,
                                                return_dict=True, return_assistant_tokens_mask=True)
                assert len(made["input_ids"]) == len(made["assistant_masks"])
                cases.append({"tokenizer": name, "preset": preset, "messages": messages,
                              "tokens": made["input_ids"], "mask": made["assistant_masks"]})
    with open(out / "golden.json", "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(each) for each in cases) + "\n]\n")


if __name__ == "__main__":
    main()

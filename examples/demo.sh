#!/usr/bin/env bash
# The whole way on this repository's own text: a tokenizer, tokens, a model trained by four ranks,
# stopped, resumed, and a text from it. Nothing is downloaded. Everything goes to demo/.
set -euo pipefail
cd "$(dirname "$0")/.."
# Threads that spin for the next piece of work slow down whoever shares the processor.
export OMP_WAIT_POLICY=passive
tessera=build/cpu/apps/tessera
out=demo
rm -rf "$out"
mkdir -p "$out/text"

echo "== 1/6  text: this repository's documents and sources, each a document"
find ./*.md docs tessera apps -type f \( -name '*.md' -o -name '*.h' -o -name '*.cpp' \) |
  while read -r file; do
    name=${file#./}
    cp "$file" "$out/text/${name//\//-}.txt"
  done

echo "== 2/6  train-tokenizer: 2048 tokens of byte pair encoding, in Hugging Face's format"
"$tessera" train-tokenizer --input "$out/text/*.txt" --vocab-size 2048 --output "$out/tokenizer.json"
tokenizer=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model "$out/tokenizer.json")

echo "== 3/6  preprocess: text -> tokens -> Megatron's .bin/.idx"
"$tessera" preprocess --input "$out/text/*.txt" "${tokenizer[@]}" --append-eod --output-prefix "$out/repository"

train=("$tessera" train --config examples/demo.yaml "${tokenizer[@]}"
  --data-path "$out/repository_text_document" --save "$out/checkpoints"
  --nproc 4 --tensor-model-parallel-size 2) # ranks are threads: 2 share the model, 2 x 2 the batch

echo "== 4/6  train: a Llama-like model on 4 ranks (TP 2 x DP 2), first half"
"${train[@]}" --exit-interval 150

echo "== 5/6  train: second half, resumed from the checkpoint"
"${train[@]}" --load "$out/checkpoints"

loss=$(grep -o '"valid_loss":[0-9.]*' "$out/checkpoints/metrics.jsonl" | tail -n 1 | cut -d: -f2)
echo "the loss is $loss nats per token on text it has not seen; a model that knows nothing has 7.6"
awk -v loss="$loss" 'BEGIN { exit !(loss > 0 && loss < 4.2) }' ||
  { echo "demo: that is too much: something is wrong" >&2; exit 1; }

echo "== 6/6  generate: what it learned"
"$tessera" generate --load "$out/checkpoints" --prompt "The tokenizer " --max-new-tokens 100 --seed 1 \
  --temperature 0.7

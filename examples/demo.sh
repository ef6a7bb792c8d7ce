#!/usr/bin/env bash
# Trains a small byte-level language model on made-up stories and lets it write one. Everything goes to demo/.
set -euo pipefail
cd "$(dirname "$0")/.."
# Threads that spin for the next piece of work slow down whoever shares the processor.
export OMP_WAIT_POLICY=passive
bin=build/cpu
out=demo
rm -rf "$out"
mkdir "$out"

echo "== 1/4  stories: 4000 little texts from a grammar, nothing is downloaded"
"$bin/examples/stories" 4000 > "$out/stories.jsonl"
head -n 1 "$out/stories.jsonl"

echo "== 2/4  preprocess: text -> bytes as tokens -> Megatron's .bin/.idx"
"$bin/apps/tessera" preprocess --input "$out/stories.jsonl" --output-prefix "$out/stories" --append-eod

echo "== 3/4  train: a Llama-like model (RMSNorm, RoPE, SwiGLU, grouped queries)"
"$bin/apps/tessera" train --config examples/demo.yaml --data-path "$out/stories_text_document" \
  --save "$out/checkpoints"

loss=$(grep -o '"lm_loss":[0-9.]*' "$out/checkpoints/metrics.jsonl" | tail -n 1 | cut -d: -f2)
echo "the loss is $loss nats per byte now; a model that knows nothing has 5.5"
awk -v loss="$loss" 'BEGIN { exit !(loss > 0 && loss < 2.6) }' ||
  { echo "demo: that is too much: something is wrong" >&2; exit 1; }

echo "== 4/4  generate: what it learned"
"$bin/apps/tessera" generate --load "$out/checkpoints" --prompt "One morning " --max-new-tokens 240 --seed 1 \
  --temperature 0.7

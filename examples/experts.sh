#!/usr/bin/env bash
# A mixture of experts and a dense model of the same active size, on this repository's own text: the same data, steps
# and work per token, but the mixture has 8 experts of which each token uses 2, each half as wide as the dense MLP. The
# factor 2 makes the mean of the two as large as one MLP of both widths. The loss of the mixture is lower.
# A few minutes on two cores; `make demo` comes first, which makes tokenizer and data in demo/.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive
tessera=build/cpu/apps/tessera
out=demo/experts
[ -f demo/repository_text_document.bin ] || { echo "run 'make demo' first: it makes the data" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"

train() { # name, flags
  "$tessera" train --config examples/demo.yaml --train-iters 400 --save "$out/$1" --save-interval 400 \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model demo/tokenizer.json \
    --data-path demo/repository_text_document --eval-interval 400 --eval-iters 8 --log-interval 100 --nproc 2 "${@:2}"
}
# The mean of the last 50 steps. No text has been trained on before: 400 steps are less than one epoch.
loss() {
  tail -n 60 "$out/$1/metrics.jsonl" | grep -o '"lm_loss":[0-9.]*' | tail -n 50 | cut -d: -f2 |
    awk '{ sum += $1 } END { printf "%.4f", sum / NR }'
}

echo "== dense: an MLP of 384"
train dense --ffn-hidden-size 384
echo "== experts: 2 of 8 experts of 192, shared by 2 ranks"
train experts --ffn-hidden-size 384 --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 192 \
  --moe-router-topk-scaling-factor 2 --moe-aux-loss-coeff 1e-2 --expert-model-parallel-size 2

echo "loss: dense $(loss dense), experts $(loss experts)"
awk -v dense="$(loss dense)" -v experts="$(loss experts)" 'BEGIN { exit !(experts > 0 && experts < dense) }' ||
  { echo "experts.sh: the experts are not better: something is wrong" >&2; exit 1; }

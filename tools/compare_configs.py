"""The configurations that tools/compare_builds.py trains: small ones to compare, larger ones to time."""

from dataclasses import dataclass

STEPS = 8

# Sizes for each device. A GPU gets heads of 64 channels, for which it has kernels of its own.
SIZES = {
    "cpu": "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64",
    "cuda": "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 256",
}
DEVICE = {"cpu": "--device cpu", "cuda": "--device cuda --deterministic-mode"}
RUN = (
    f"--train-iters {STEPS} --save-interval {STEPS} --micro-batch-size 2 --global-batch-size 8 "
    "--lr 3e-3 --min-lr 3e-4 --lr-decay-style cosine --lr-warmup-iters 2 --split 90,10,0 "
    "--eval-interval 4 --eval-iters 1 --log-interval 4"
)

GATED = (
    "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear "
    "--group-query-attention --num-query-groups 2"
)
FAMILIES = {
    "gpt2": "",
    "llama": f"{GATED} --untie-embeddings-and-output-weights --rotary-base 500000 --rope-scaling-type llama3 "
    "--rope-scaling-factor 8 --rope-original-max-position 32",
    "mistral": f"{GATED} --untie-embeddings-and-output-weights --window-size 15,0",
    "qwen2": f"{GATED} --add-qkv-bias --window-size 15,0 --window-first-layer 2",
    "qwen3": f"{GATED} --qk-layernorm --kv-channels 128",
}

PP2 = "--nproc 2 --pipeline-model-parallel-size 2"
LAYOUTS = {
    "": "",
    "tp2": "--nproc 2 --tensor-model-parallel-size 2",
    "tp2-sp": "--nproc 2 --tensor-model-parallel-size 2 --sequence-parallel",
    "tp2x2": "--nproc 4 --tensor-model-parallel-grid 2,2",
    "pp2-1f1b": PP2,
    "pp2-interleaved": f"{PP2} --num-virtual-stages-per-pipeline-rank 2",
    "pp2-zb-h1": f"{PP2} --pipeline-schedule zb-h1",
    "pp2-zb-v": f"{PP2} --pipeline-schedule zb-v",
    "dp2": "--nproc 2",
    "dp2-mpi": "--nproc 2 --launch processes",
    "dp2-zero1": "--nproc 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather",
    "dp2-zero2": "--nproc 2 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads",
    "dp2-zero3": "--nproc 2 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
    "tp2-pp2-dp2": "--nproc 8 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 "
    "--use-distributed-optimizer",
}

PRECISIONS = {
    "f64": "--params-dtype f64",
    "f32": "",
    "tf32": "--allow-tf32",
    "bf16": "--bf16",
    "fp16": "--fp16 --initial-loss-scale 16777216",  # so large that the first steps are skipped
}
EXTRAS = {
    "": "",
    "dropout": "--attention-dropout 0.1 --hidden-dropout 0.1",
    "packed": "--reset-attention-mask --reset-position-ids --eod-mask-loss",
    "recompute-selective": "--recompute-granularity selective",
    "recompute-full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2",
    "sgd": "--optimizer sgd --label-smoothing 0.1",
    "bf16-reduce": "--grad-reduce-in-bf16",
    "bf16-state": "--main-grads-dtype bf16 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
    "offload": "--optimizer-cpu-offload",
}

# family, precision, layout, extra
ANY_DEVICE = [
    ("gpt2", "f32", "", ""),
    ("gpt2", "bf16", "", "dropout"),
    ("gpt2", "fp16", "", ""),
    ("gpt2", "f64", "", "sgd"),
    ("llama", "bf16", "", ""),
    ("llama", "f32", "", "packed"),
    ("llama", "bf16", "", "recompute-full"),
    ("mistral", "f32", "", "recompute-selective"),
    ("mistral", "bf16", "", ""),
    ("qwen2", "bf16", "", "bf16-state"),
    ("qwen3", "f32", "", "dropout"),
    ("qwen3", "bf16", "", "packed"),
    ("gpt2", "f32", "tp2", "dropout"),
    ("llama", "bf16", "tp2-sp", "recompute-full"),
    ("gpt2", "f32", "tp2x2", "dropout"),
    ("qwen2", "bf16", "tp2x2", ""),
    ("llama", "f32", "pp2-1f1b", "packed"),
    ("qwen3", "bf16", "pp2-interleaved", ""),
    ("gpt2", "f32", "pp2-zb-h1", "dropout"),
    ("llama", "bf16", "pp2-zb-v", "recompute-selective"),
    ("gpt2", "f32", "dp2", ""),
    ("llama", "bf16", "dp2-zero1", ""),
    ("qwen2", "bf16", "dp2-zero2", "bf16-reduce"),
    ("gpt2", "bf16", "dp2-zero3", "dropout"),
    ("llama", "f32", "dp2-zero3", "recompute-full"),
    ("llama", "bf16", "tp2-pp2-dp2", ""),
]
DEVICE_ONLY = {
    "cpu": [("qwen3", "f32", "dp2-mpi", "")],
    "cuda": [("llama", "tf32", "", ""), ("llama", "bf16", "", "offload"), ("llama", "f32", "", "")],
}

# Models to time: those of bench/configs.json, and one that fits a small machine.
MOCK = "--mock-data --tokenizer-type NullTokenizer --attention-dropout 0 --hidden-dropout 0 --lr 3e-4 --eval-iters 0"
ROPE = (
    f"{MOCK} --position-embedding-type rope --rotary-base 500000 --normalization RMSNorm --swiglu "
    "--disable-bias-linear --group-query-attention"
)
MODELS = {
    "gpt2-30m": f"{MOCK} --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --vocab-size 8191",
    "gpt2-124m": f"{MOCK} --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
    "--vocab-size 50303",
    "llama-60m": f"{ROPE} --num-layers 8 --hidden-size 512 --ffn-hidden-size 1536 --num-attention-heads 8 "
    "--num-query-groups 4 --seq-length 512 --vocab-size 31999",
    "llama3.2-1b": f"{ROPE} --num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 32 "
    "--num-query-groups 8 --seq-length 4096 --vocab-size 128255",
}
# model, precision, layout, micro-batch size, steps, the first of which are not timed
SPEED = {
    "cpu": [
        ("gpt2-30m", "f32", "", 4, 5, 1),
        ("llama-60m", "f32", "", 2, 5, 1),
        ("gpt2-30m", "f32", "dp2", 2, 5, 1),
        ("llama-60m", "f32", "tp2-sp", 2, 5, 1),
    ],
    "cuda": [
        ("gpt2-124m", "bf16", "", 32, 80, 20),
        ("llama3.2-1b", "bf16", "", 4, 30, 10),
        ("gpt2-124m", "f32", "", 4, 40, 10),
    ],
}


@dataclass(frozen=True)
class Configuration:
    name: str
    steps: int
    flags: list  # of `tessera train`, without the paths
    warm_up: int = 0  # steps whose time does not count


def join_name(*parts):
    return "-".join(filter(None, parts))


def comparison(device, family, precision, layout, extra):
    flags = [SIZES[device], DEVICE[device], RUN, FAMILIES[family]]
    flags += [PRECISIONS[precision], LAYOUTS[layout], EXTRAS[extra]]
    if extra != "dropout":
        flags.append("--attention-dropout 0 --hidden-dropout 0")
    return Configuration(join_name(family, precision, layout, extra), STEPS, " ".join(flags).split())


def timing(device, model, precision, layout, micro_batch, steps, warm_up):
    flags = [MODELS[model], PRECISIONS[precision], LAYOUTS[layout], f"--device {device} --log-interval 10"]
    flags.append(f"--micro-batch-size {micro_batch} --train-iters {steps}")
    return Configuration(join_name(model, precision, layout), steps, " ".join(flags).split(), warm_up)


def comparisons(device):
    return [comparison(device, *row) for row in ANY_DEVICE + DEVICE_ONLY[device]]


def timings(device):
    return [timing(device, *row) for row in SPEED[device]]

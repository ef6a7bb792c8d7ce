// What Megatron-LM lets a user choose, and Tessera chooses itself: the values and results of a
// training are the same.
#include "tessera/config/megatron/megatron_flags.h"

namespace tessera::config {
namespace {

constexpr std::string_view kModels = "Implementations and kernels";
constexpr std::string_view kNumbers = "Precision of single operations";
constexpr std::string_view kSaving = "Checkpoints";
constexpr std::string_view kReports = "Logs and metrics";
constexpr std::string_view kWires = "Communication";
constexpr std::string_view kMemory = "Memory and host";
constexpr std::string_view kInput = "Data and tokenizers";
constexpr std::string_view kSafety = "Start, checks and end";

constexpr MegatronRow kAlreadySo[] = {
    {kModels,
     "use-mcore-models use-legacy-models transformer-impl=NAME use-te export-te-mcore-model "
     "export-force-local-attention modelopt-enabled export-model-type=NAME enable-experimental",
     "there is one implementation of each layer"},
    {kModels, "spec=NAME...", "there is one implementation of each layer", "local"},
    {kModels, "attention-backend=NAME use-flash-attn batch-invariant-mode flash-decode",
     "the fastest attention kernel that fits is taken; its results do not depend on the batch"},
    {kModels,
     "no-masked-softmax-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion "
     "no-gradient-accumulation-fusion no-gradient-reduce-div-fusion cross-entropy-loss-fusion "
     "cross-entropy-fusion-impl=NAME moe-permute-fusion moe-router-fusion no-persist-layer-norm "
     "use-fused-weighted-squared-relu use-te-activation-func fused-single-qkv-rope "
     "scaled-upper-triang-masked-softmax-fusion scaled-masked-softmax-fusion "
     "no-scaled-masked-softmax-fusion memory-efficient-layer-norm",
     "operations are fused where that helps"},
    {kModels, "openai-gelu bias-gelu-fusion", "GELU has the tanh form"},
    {kModels, "no-bias-gelu-fusion",
     "GELU keeps the tanh form; Megatron's without fusion is the form with erf, here "
     "--activation-function gelu_exact"},
    {kModels,
     "cuda-graph-impl=NAME cuda-graph-scope=NAME... cuda-graph-modules=NAME... "
     "cuda-graph-warmup-steps=N enable-cuda-graph external-cuda-graph "
     "cuda-graph-use-single-mempool cuda-graph-retain-backward-graph te-rng-tracker "
     "inference-rng-tracker",
     "a training step on a GPU is one CUDA graph"},
    {kModels, "moe-use-legacy-grouped-gemm moe-pad-experts-for-cuda-graph-inference",
     "all experts of a rank are multiplied in one product"},
    {kModels, "moe-router-padding-for-fp8 moe-router-padding-for-quantization",
     "no precision needs padded numbers of tokens"},
    {kModels, "disable-mamba-mem-eff-path", "there are no Mamba layers"},

    {kNumbers, "apply-query-key-layer-scaling no-query-key-layer-scaling",
     "attention scores are computed in fp32, where this scaling cancels"},
    {kNumbers, "attention-softmax-in-fp32", "softmax is computed in fp32"},
    {kNumbers, "accumulate-allreduce-grads-in-fp32 fp32-allreduce",
     "gradients are accumulated and reduced in fp32, unless --main-grads-dtype or "
     "--grad-reduce-in-bf16 says otherwise"},
    {kNumbers, "disable-bf16-reduced-precision-matmul", "products of bf16 are summed in fp32"},
    {kNumbers, "ddp-reduce-scatter-with-fp32-accumulation",
     "gradients that --grad-reduce-in-bf16 sends in bf16 are summed in fp32"},
    {kNumbers, "use-precision-aware-optimizer",
     "--main-grads-dtype, --exp-avg-dtype and --exp-avg-sq-dtype work without it"},
    {kNumbers, "main-params-dtype=TYPE megatron-fsdp-main-params-dtype=TYPE",
     "master weights are fp32", "fp32"},
    {kNumbers, "fp16-lm-cross-entropy", "the loss is computed in fp32"},

    {kSaving,
     "ckpt-format=NAME dist-ckpt-format=NAME use-dist-ckpt auto-detect-ckpt-format "
     "dist-ckpt-optim-fully-reshardable distrib-optim-fully-reshardable-mem-efficient "
     "dist-ckpt-save-pre-mcore-014 ckpt-convert-update-legacy-dist-opt-format "
     "dist-ckpt-strictness=NAME no-strict-fsdp-dtensor-load",
     "checkpoints have one format, which every layout writes and loads"},
    {kSaving,
     "ckpt-fully-parallel-save no-ckpt-fully-parallel-save ckpt-fully-parallel-load "
     "ckpt-assume-constant-structure use-persistent-ckpt-worker async-strategy=NAME "
     "async-ckpt-use-cpu-shm async-ckpt-use-cached-structure",
     "all ranks write and read their parts at the same time"},
    {kSaving, "verify-integrity", "every file has a checksum, which is checked when it is read"},
    {kSaving, "load-main-params-from-ckpt", "checkpoints hold the master weights"},
    {kSaving, "no-save-rng", "random numbers follow from the seed and have no state to save"},
    {kSaving, "no-initialization", "initial weights are overwritten by those of --load"},
    {kSaving, "no-use-tokenizer-model-from-checkpoint-args",
     "train takes the tokenizer from its flags"},

    {kReports,
     "tensorboard-dir=PATH tensorboard-log-interval=N tensorboard-queue-size=N "
     "log-timers-to-tensorboard log-memory-to-tensorboard log-validation-ppl-to-tensorboard "
     "log-world-size-to-tensorboard no-log-loss-scale-to-tensorboard "
     "no-log-learning-rate-to-tensorboard log-batch-size-to-tensorboard "
     "log-learning-rate-to-tensorboard log-loss-scale-to-tensorboard wandb-project=NAME "
     "wandb-entity=NAME wandb-exp-name=NAME wandb-save-dir=PATH",
     "metrics of every step go to metrics.jsonl (--metrics-file)"},
    {kReports, "log-progress", "metrics.jsonl has the samples and operations of every step"},
    {kReports, "config-logger-dir=PATH",
     "--print-config prints the configuration, and checkpoints hold it"},
    {kReports, "logging-level=N", "the log has one level"},
    {kReports,
     "no-one-logger one-logger-project=NAME one-logger-run-name=NAME one-logger-async "
     "app-tag-run-name=NAME app-tag-run-version=NAME",
     "nothing is reported to other machines"},
    {kReports, "nvtx-ranges use-pytorch-profiler",
     "--profile writes a Chrome trace, and a GPU's ranges go to NVTX"},
    {kReports, "no-barrier-with-level-1-timing", "timers have no barriers"},

    {kWires,
     "distributed-backend=NAME disable-gloo-process-groups enable-gloo-process-groups "
     "pipeline-model-parallel-comm-backend=NAME tp-comm-bootstrap-backend=NAME",
     "the backend follows from --device and the launcher"},
    {kWires, "DDP-impl=NAME", "data parallelism has one implementation", "local torch"},
    {kWires,
     "use-nccl-ub disable-symmetric-registration fsdp-manual-registration use-sharp "
     "sharp-enabled-group=NAME nccl-communicator-config-path=PATH "
     "high-priority-stream-groups=NAME... symmetric-ar-type=NAME nccl-all-reduce-for-prefill",
     "NCCL has its own defaults"},
    {kWires,
     "no-align-grad-reduce align-grad-reduce no-align-param-gather ddp-num-buckets=N "
     "ddp-pad-buckets-for-high-nccl-busbw ddp-average-in-collective "
     "overlap-param-gather-with-optimizer-step suggested-communication-unit-size=N "
     "use-contiguous-buffers-in-local-ddp no-contiguous-buffers-in-local-ddp "
     "no-use-layer-wise-param-layout fsdp-double-buffer",
     "each bucket is reduced or gathered when it is ready"},
    {kWires,
     "tp-comm-overlap tp-comm-overlap-cfg=PATH disable-tp-comm-overlap-ag "
     "disable-tp-comm-overlap-rs tp-comm-overlap-rs-dgrad disable-tp-comm-bulk-dgrad "
     "disable-tp-comm-bulk-wgrad disable-tp-comm-split-ag disable-tp-comm-split-rs "
     "no-async-tensor-model-parallel-allreduce",
     "communication of tensor parallelism overlaps products where it can"},
    {kWires,
     "no-overlap-p2p-communication overlap-p2p-communication-warmup-flush use-ring-exchange-p2p "
     "no-scatter-gather-tensors-in-pipeline",
     "messages between stages are posted ahead"},
    {kWires, "defer-embedding-wgrad-compute wgrad-deferral-limit=N delay-wgrad-compute",
     "--pipeline-schedule decides when weight gradients are computed"},
    {kWires,
     "overlap-moe-expert-parallel-comm moe-shared-expert-overlap moe-enable-deepep "
     "moe-deepep-num-sms=N moe-hybridep-num-sms=N moe-flex-dispatcher-backend=NAME "
     "ep-overlap-early-attn-memory-release",
     "--moe-token-dispatcher-type alone chooses how tokens travel"},
    {kWires, "distributed-timeout-seconds-after-init=N",
     "--distributed-timeout-minutes holds from beginning to end"},
    {kWires, "local-rank=N", "a rank's number comes from its launcher"},

    {kMemory, "manual-gc manual-gc-interval=N no-manual-gc-eval", "there is no garbage to collect"},
    {kMemory,
     "empty-unused-memory-level=N no-clone-scatter-output-in-embedding "
     "deallocate-pipeline-outputs",
     "memory is planned before the first step"},
    {kMemory, "keep-fp8-transpose-cache", "there are no FP8 weights"},
    {kMemory, "init-model-with-meta-device", "a rank allocates and initialises only what it keeps"},
    {kMemory,
     "optimizer-offload-fraction=X overlap-cpu-optimizer-d2h-h2d no-pin-cpu-grads "
     "no-pin-cpu-params use-torch-optimizer-for-cpu-offload",
     "--optimizer-cpu-offload keeps all optimizer state in host memory, and overlaps its copies"},
    {kMemory, "train-sync-interval=N", "a GPU is waited for when its results are logged"},
    {kMemory, "make-vocab-size-divisible-by=N",
     "the vocabulary is never padded, so results do not depend on tensor parallelism; "
     "--padded-vocab-size gives a model more rows"},

    {kInput,
     "no-mmap-bin-files num-dataset-builder-threads=N dataloader-fast-cache-load "
     "dataloader-defer-npy-index-mmap no-create-attention-mask-in-dataloader disable-msc "
     "dataloader-save=PATH",
     "data files are mapped, and attention masks are never built"},
    {kInput, "trust-remote-code legacy-tokenizer", "a tokenizer's folder is data, never code"},
    {kInput, "sft-tokenizer-prompt-format=NAME tokenizer-prompt-format=NAME",
     "the chat template is chosen when data is made: tessera preprocess --chat-template"},
    {kInput, "mid-level-dataset-surplus=X",
     "blends build 0.5 % more samples, as Megatron's default", "0.005"},

    {kSafety, "use-cpu-initialization",
     "initial weights are the same on every device and in every layout"},
    {kSafety, "exit-signal-handler exit-signal=NAME exit-signal-handler-for-dataloader",
     "with --save a run saves and stops at SIGTERM, SIGINT, SIGHUP and SIGUSR1"},
    {kSafety, "rerun-mode=NAME", "a step that is not finite stops the run before weights change",
     "disabled validate_results"},
    {kSafety, "check-for-nan-in-loss-and-grad",
     "every step is checked, unless --no-check-for-nan-in-loss-and-grad says otherwise"},
    {kSafety, "test-mode", "a training runs no tests beside itself"},
    {kSafety,
     "inference-max-seq-length=N inference-max-requests=N inference-max-batch-size=N "
     "inference-batch-times-seqlen-threshold=N max-tokens-to-oom=N",
     "a training serves nothing; tessera generate has its own flags"},
};

}  // namespace

std::span<const MegatronRow> already_so_rows() { return kAlreadySo; }

}  // namespace tessera::config

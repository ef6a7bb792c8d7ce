// What Megatron-LM has and Tessera does not: refused, since a run without it would be another run.
#include "tessera/config/megatron/megatron_flags.h"

namespace tessera::config {
namespace {

constexpr std::string_view kPrecisions = "Precision";
constexpr std::string_view kLayers = "Layers and models";
constexpr std::string_view kExperts = "Mixtures of experts";
constexpr std::string_view kTraining = "Training";
constexpr std::string_view kParallel = "Parallelism and memory";
constexpr std::string_view kFiles = "Checkpoints and data";
constexpr std::string_view kWatch = "Supervision";
constexpr std::string_view kOther = "Other kinds of training";

constexpr std::string_view kFp8 = "FP8 is not there";
constexpr std::string_view kFp4 = "FP4 is not there";
constexpr std::string_view kVision = "images are not there";
constexpr std::string_view kMuon = "Muon is not there; --optimizer is adam or sgd";

constexpr MegatronRow kMissing[] = {
    {kPrecisions, "fp8-format=NAME fp8-quantizer-factory=NAME te-precision-config-file=PATH", kFp8},
    {kPrecisions,
     "fp8-recipe=NAME fp8-margin=N fp8-interval=N fp8-amax-history-len=N "
     "fp8-amax-compute-algo=NAME fp8-param-gather no-fp8-wgrad first-last-layers-bf16 "
     "num-layers-at-start-in-bf16=N num-layers-at-end-in-bf16=N reuse-grad-buf-for-mxfp8-param-ag "
     "fp8-dot-product-attention fp8-multi-head-attention tp-only-amax-red fp8-output-proj",
     kFp8, "", "fp8-format"},
    {kPrecisions, "fp4-format=NAME fp4-quantizer-factory=NAME", kFp4},
    {kPrecisions, "fp4-recipe=NAME fp4-param-gather fp4-param", kFp4, "", "fp4-format"},
    {kPrecisions,
     "kitchen-config-file=PATH kitchen-recipe-number=N use-kitchen-attention "
     "kitchen-attention-backend=NAME",
     "quantized training is not there"},
    {kPrecisions, "fp32-residual-connection",
     "the residual stream has the type of the activations; --params-dtype f32 makes both fp32"},

    {kLayers, "apply-residual-connection-post-layernorm",
     "the residual stream always passes by the norms"},
    {kLayers, "qk-clip qk-clip-alpha=X qk-clip-threshold=X log-max-attention-logit",
     "clipping of attention scores is not there; --attention-logit-softcap caps them smoothly"},
    {kLayers, "attention-output-gate", "gated attention is not there"},
    {kLayers,
     "experimental-attention-variant=NAME linear-attention-freq=N linear-attention-type=NAME "
     "linear-conv-kernel-dim=N linear-key-head-dim=N linear-value-head-dim=N "
     "linear-num-key-heads=N linear-num-value-heads=N dsa-indexer-n-heads=N "
     "dsa-indexer-head-dim=N dsa-indexer-topk=N dsa-indexer-loss-coeff=X "
     "dsa-indexer-use-sparse-loss",
     "linear and sparse attention are not there"},
    {kLayers, "relative-attention-num-buckets=N relative-attention-max-distance=N",
     "relative positions are not there", "", "position-embedding-type=relative"},
    {kLayers, "mrope-section=N...", kVision, "", "position-embedding-type=mrope"},
    {kLayers,
     "hybrid-layer-pattern=TEXT hybrid-attention-ratio=X hybrid-mlp-ratio=X "
     "hybrid-override-pattern=TEXT is-hybrid-model mamba-state-dim=N mamba-head-dim=N "
     "mamba-num-groups=N mamba-num-heads=N",
     "Mamba layers are not there"},
    {kLayers, "heterogeneous-layers-config-path=PATH heterogeneous-layers-config-encoded-json=TEXT",
     "every layer has the same sizes"},
    {kLayers, "mtp-use-repeated-layer mtp-standalone",
     "every depth of multi-token prediction has a layer of its own, on the last stage", "",
     "mtp-num-layers"},
    {kLayers, "enable-gpt-oss",
     "use --quick-geglu --activation-func-clamp-value 7 --glu-linear-offset 1"},
    {kLayers, "use-mup mup-base-hidden-size=N mup-width-mult=X", "muP is not there"},
    {kLayers, "num-unique-layers=N param-sharing-style=NAME", "layers share no weights"},
    {kLayers, "cache-mla-latents", "tessera generate keeps the latent vectors by itself"},
    {kLayers, "onnx-safe", "there is no export to ONNX"},

    {kExperts, "moe-router-topk-limited-devices=N",
     "use --moe-router-num-groups with --moe-router-group-topk"},
    {kExperts, "moe-upcycling-granularity=N",
     "--moe-use-upcycling makes experts of the MLP's whole width", "1", "moe-use-upcycling"},
    {kExperts, "export-moe-apply-probs-on-input", "use --moe-apply-probs-on-input"},
    {kExperts, "moe-latent-size=N", "latent experts are not there"},
    {kExperts, "moe-extended-tp", "use --expert-tensor-parallel-size"},
    {kExperts, "moe-enable-routing-replay moe-router-force-biased=X",
     "routing follows the router alone"},

    {kTraining,
     "muon-momentum=X muon-no-split-qkv muon-use-nesterov muon-scale-mode=NAME "
     "muon-fp32-matmul-prec=NAME muon-num-ns-steps=N muon-tp-mode=NAME muon-extra-scale-factor=X "
     "muon-scalar-optimizer=NAME",
     kMuon, "", "optimizer=muon"},
    {kTraining, "no-weight-decay-cond-type=NAME apply-wd-to-qk-layernorm",
     "weight decay is not applied to biases and norms"},
    {kTraining, "eval-micro-batch-size=N", "evaluation has the microbatches of training"},
    {kTraining, "decrease-batch-size-if-needed", "set --global-batch-size to a multiple"},
    {kTraining, "iterations-to-skip=N...", "no iteration can be left out"},
    {kTraining, "skip-train", "use tessera evaluate"},
    {kTraining, "data-parallel-random-init", "data-parallel ranks begin with the same weights"},
    {kTraining, "embedding-init-method-std=X init-method-xavier-uniform",
     "initial weights are normal, with --init-method-std"},

    {kParallel, "cpu-offloading-num-layers=N", "activations stay on the device", "0"},
    {kParallel,
     "fine-grained-activation-offloading offload-modules=NAME... min-offloaded-tensor-size=N "
     "cpu-offloading cpu-offloading-activations cpu-offloading-weights",
     "activations stay on the device"},
    {kParallel, "hybrid-context-parallel max-seqlen-per-dp-cp-rank=N",
     "every sample is divided over all context-parallel ranks"},
    {kParallel, "enable-full-sharding-in-hsdp",
     "hybrid sharding (--num-distributed-optimizer-instances) keeps whole copies"},
    {kParallel, "lazy-mpu-init", "ranks are started by Tessera or a launcher"},

    {kFiles, "use-mp-args-from-checkpoint-args",
     "give the layout by flags; any loads a checkpoint"},
    {kFiles, "pretrained-checkpoint=PATH", "use --load with --finetune, or --load-hf"},
    {kFiles, "ckpt-convert-format=NAME ckpt-convert-save=PATH",
     "checkpoints have one format; tessera convert imports and exports Hugging Face models"},
    {kFiles,
     "non-persistent-save-interval=N non-persistent-ckpt-type=NAME "
     "non-persistent-global-ckpt-dir=PATH non-persistent-local-ckpt-dir=PATH "
     "non-persistent-local-ckpt-algo=NAME",
     "all checkpoints are permanent; see --save-interval and --keep-last"},
    {kFiles, "replication replication-jump=N replication-factor=N",
     "checkpoints are written to one folder"},
    {kFiles, "object-storage-cache-path=PATH", "data is read from files"},
    {kFiles, "dataloader-inter-document-masking", "use --reset-attention-mask"},
    {kFiles, "data-path2=PATH", "one --data-path names all data sets"},
    {kFiles, "tokenizer-metadata=PATH special-tokens=TEXT... vocab-extra-ids=N",
     "special tokens come from the tokenizer's files"},
    {kFiles, "allow-ambiguous-pad-tokens", "tokens are masked by --eod-mask-loss only"},
    {kFiles, "yaml-cfg=PATH", "use --config with a flat file of 'name: value' lines"},

    {kWatch, "check-for-spiky-loss check-for-large-grads",
     "losses and gradients are only checked to be finite"},
    {kWatch, "log-energy", "energy is not measured"},
    {kWatch,
     "log-straggler disable-straggler-on-startup straggler-ctrlr-port=N straggler-minmax-count=N "
     "run-workload-inspector-server",
     "ranks are compared by their waits for data only"},
    {kWatch, "record-memory-history memory-snapshot-path=PATH",
     "memory is planned: tessera inspect prints the plan"},
    {kWatch,
     "enable-ft-package calc-ft-timeouts adlr-autoresume adlr-autoresume-interval=N "
     "inprocess-restart inprocess-max-iterations=N inprocess-monitor-thread-interval=X "
     "inprocess-monitor-process-interval=X inprocess-progress-watchdog-interval=X "
     "inprocess-heartbeat-interval=X inprocess-soft-timeout=X inprocess-hard-timeout=X "
     "inprocess-heartbeat-timeout=X inprocess-barrier-timeout=X inprocess-completion-timeout=X "
     "inprocess-last-call-wait=X inprocess-termination-grace-time=X inprocess-granularity=NAME "
     "inprocess-active-world-size=N inprocess-empty-cuda-cache",
     "a run whose rank dies stops; start it again, and it resumes from --load"},
    {kWatch,
     "error-injection-rate=N error-injection-type=NAME result-rejected-tracker-filename=PATH "
     "dump-param-to-param-group-map=PATH",
     "steps are not run twice"},

    {kOther,
     "img-h=N img-w=N num-channels=N patch-dim=N num-classes=N classes-fraction=X "
     "data-per-class-fraction=X head-lr-mult=X vision-pretraining vision-pretraining-type=NAME "
     "vision-backbone-type=NAME swin-backbone-type=NAME mask-type=NAME mask-factor=X "
     "iter-per-epoch=N dino-local-img-size=N dino-local-crops-number=N dino-head-hidden-size=N "
     "dino-bottleneck-size=N dino-freeze-last-layer=X dino-norm-last-layer "
     "dino-warmup-teacher-temp=X dino-teacher-temp=X dino-warmup-teacher-temp-epochs=N "
     "language-model-type=NAME vision-model-type=NAME image-tag-type=NAME prompt-path=PATH "
     "disable-vision-class-token allow-missing-vision-projection-checkpoint freeze-ViT freeze-LM "
     "pixel-shuffle use-tiling use-thumbnail max-num-tiles=N num-frames=N recompute-vision "
     "force-system-message use-loss-scaling use-area-weighted-aspect-ratio decoder-seq-length=N "
     "dataloader-seq-length=N",
     kVision},
    {kOther, "export-kd-cfg=PATH export-kd-teacher-load=PATH teacher-model-config=PATH",
     "distillation is not there"},
    {kOther,
     "decoder-num-layers=N mask-prob=X short-seq-prob=X sample-rate=X bert-no-binary-head "
     "retriever-seq-length=N ict-head-size=N biencoder-projection-dim=N "
     "biencoder-shared-query-context-model ict-load=PATH bert-load=PATH titles-data-path=PATH "
     "query-in-block-prob=X use-one-sent-docs evidence-data-path=PATH "
     "retriever-report-topk-accuracies=N... retriever-score-scaling block-data-path=PATH "
     "embedding-path=PATH indexer-batch-size=N indexer-log-interval=N output-bert-embeddings "
     "bert-embedder-type=NAME",
     "models are decoders: BERT, T5 and retrievers are not there"},
    {kOther,
     "retro-project-dir=PATH retro-add-retriever retro-cyclic-train-iters=N "
     "retro-encoder-layers=N retro-encoder-hidden-dropout=X retro-encoder-attention-dropout=X "
     "retro-num-neighbors=N retro-num-retrieved-chunks=N retro-attention-gate=X "
     "retro-no-verify-neighbor-count",
     "Retro is not there"},
    {kOther,
     "perform-rl-step rl-prompts-per-eval=N grpo-prompts-per-step=N grpo-group-size=N "
     "grpo-iterations=N grpo-clamp-eps-lower=X grpo-clamp-eps-upper=X grpo-kl-beta=X "
     "grpo-entropy-term-weight=X grpo-filter-groups-with-same-reward grpo-default-temperature=X "
     "grpo-default-top-p=X langrl-inference-server-type=NAME "
     "langrl-inference-server-conversation-template=NAME langrl-external-server "
     "langrl-env-config=PATH rl-offload-optimizer-during-inference "
     "rl-offload-kv-cache-during-training rl-remove-kv-cache-during-training rl-reset-cuda-graphs "
     "rl-partial-rollouts rl-inference-logprobs-is-correction "
     "rl-importance-sampling-truncation-coef=X rl-calculate-intra-group-similarity "
     "rl-use-sequence-packing rl-sequence-packing-bin-size=N rl-sequence-packing-algo=NAME",
     "reinforcement learning is not there"},
    {kOther,
     "inference-dynamic-batching inference-dynamic-batching-buffer-size-gb=X "
     "inference-dynamic-batching-block-size=N "
     "inference-dynamic-batching-buffer-guaranteed-fraction=X "
     "inference-dynamic-batching-buffer-overflow-factor=X "
     "inference-dynamic-batching-max-requests-override=N "
     "inference-dynamic-batching-max-tokens-override=N "
     "inference-dynamic-batching-num-cuda-graphs=N "
     "inference-dynamic-batching-track-paused-request-events decode-only-cuda-graphs "
     "inference-dynamic-batching-unified-memory-level=N mlp-chunks-for-prefill=N "
     "disable-chunked-prefill inference-wandb-logging-step-interval=N use-legacy-static-engine",
     "a training serves nothing; tessera generate continues prompts"},
};

constexpr MissingValue kMissingValues[] = {
    {"optimizer", "muon", "Muon is not there"},
    {"optimizer", "dist_muon", "Muon is not there"},
    {"optimizer", "adaptive_muon", "Muon is not there"},
    {"optimizer", "soap", "SOAP is not there"},
    {"optimizer", "lion", "Lion is not there"},
    {"moe-router-load-balancing-type", "sinkhorn", "routing by Sinkhorn's algorithm is not there",
     "moe-router-topk"},
    {"moe-router-load-balancing-type", "quantile", "quantile balancing is not there"},
    {"moe-router-score-function", "sqrtsoftplus", "this score is not there"},
    {"position-embedding-type", "mrope", kVision},
    {"position-embedding-type", "relative", "relative positions are not there"},
    {"position-embedding-type", "yarn",
     "use --position-embedding-type rope with --rope-scaling-type yarn"},
    {"dataloader-type", "external", "data comes from files"},
    {"tokenizer-type", "MultimodalTokenizer",
     "images are not there; for text alone use HuggingFaceTokenizer with the same "
     "--tokenizer-model"},
    {"tokenizer-type", "NullMultimodalTokenizer",
     "images are not there; for text alone use NullTokenizer"},
    {"outer-dp-sharding-strategy", "optim",
     "hybrid sharding (--num-distributed-optimizer-instances) keeps whole copies"},
    {"exp-avg-dtype", "fp16", "moments are fp32 or bf16"},
    {"exp-avg-dtype", "fp8", kFp8},
    {"exp-avg-sq-dtype", "fp16", "moments are fp32 or bf16"},
    {"exp-avg-sq-dtype", "fp8", kFp8},
};

}  // namespace

std::span<const MegatronRow> missing_rows() { return kMissing; }

const MissingValue* find_missing_value(std::string_view flag, std::string_view value) {
  for (const MissingValue& row : kMissingValues)
    if (row.flag == flag && row.value == value) return &row;
  return nullptr;
}

}  // namespace tessera::config

// What Tessera does as Megatron-LM does: rows of the table of flags, whose help says what they are.
// Old names are in old_names.cpp.
#include "tessera/config/megatron/megatron_flags.h"

namespace tessera::config {
namespace {

constexpr MegatronRow kDone[] = {
    {"Model",
     "num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels group-query-attention "
     "num-query-groups max-position-embeddings padded-vocab-size position-embedding-type "
     "rotary-base rotary-percent rotary-interleaved use-rope-scaling rope-scaling-factor "
     "no-rope-freq normalization norm-epsilon apply-layernorm-1p qk-layernorm qk-l2-norm swiglu "
     "quick-geglu activation-func-clamp-value glu-linear-offset softmax-type "
     "squared-relu disable-bias-linear add-qkv-bias untie-embeddings-and-output-weights "
     "window-size window-attn-skip-freq softmax-scale multi-latent-attention q-lora-rank "
     "kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim mscale mscale-all-dim "
     "rotary-scaling-factor no-position-embedding mtp-num-layers mtp-loss-scaling-factor"},
    {"Mixtures of experts",
     "num-experts moe-layer-freq moe-ffn-hidden-size moe-shared-expert-intermediate-size "
     "moe-shared-expert-gate moe-router-topk moe-router-score-function moe-router-pre-softmax "
     "moe-router-topk-scaling-factor moe-router-num-groups moe-router-group-topk "
     "moe-router-enable-expert-bias moe-router-bias-update-rate moe-router-load-balancing-type "
     "moe-aux-loss-coeff moe-z-loss-coeff moe-input-jitter-eps moe-router-force-load-balancing "
     "moe-expert-capacity-factor moe-pad-expert-input-to-capacity moe-token-drop-policy "
     "moe-router-dtype "
     "moe-apply-probs-on-input moe-use-upcycling moe-per-layer-logging moe-token-dispatcher-type "
     "moe-grouped-gemm "
     "expert-model-parallel-size expert-tensor-parallel-size"},
    {"Regularization, initialization and precision",
     "attention-dropout hidden-dropout label-smoothing init-method-std seed bf16 fp16 params-dtype "
     "loss-scale initial-loss-scale min-loss-scale loss-scale-window hysteresis"},
    {"Batches and length",
     "micro-batch-size global-batch-size rampup-batch-size step-batch-size-schedule train-iters "
     "train-samples calculate-per-token-loss "
     "exit-interval exit-duration-in-mins"},
    {"Optimizer and schedule",
     "optimizer adam-beta1 adam-beta2 adam-eps sgd-momentum weight-decay weight-decay-incr-style "
     "start-weight-decay end-weight-decay clip-grad no-check-for-nan-in-loss-and-grad lr min-lr "
     "decoupled-lr decoupled-min-lr "
     "lr-decay-style lr-decay-iters lr-decay-samples lr-warmup-iters lr-warmup-samples "
     "lr-warmup-fraction lr-warmup-init lr-wsd-decay-style lr-wsd-decay-iters lr-wsd-decay-samples "
     "main-grads-dtype exp-avg-dtype exp-avg-sq-dtype "
     "no-store-param-remainders optimizer-cpu-offload"},
    {"Recompute",
     "recompute-granularity recompute-activations recompute-method recompute-num-layers "
     "recompute-modules distribute-saved-activations"},
    {"Parallelism",
     "tensor-model-parallel-size sequence-parallel pipeline-model-parallel-size "
     "context-parallel-size cp-comm-type hierarchical-context-parallel-sizes "
     "num-layers-per-virtual-pipeline-stage num-virtual-stages-per-pipeline-rank "
     "pipeline-model-parallel-layout decoder-first-pipeline-num-layers "
     "decoder-last-pipeline-num-layers account-for-embedding-in-pipeline-split "
     "account-for-loss-in-pipeline-split microbatch-group-size-per-virtual-pipeline-stage "
     "use-tp-pp-dp-mapping use-distributed-optimizer use-megatron-fsdp "
     "data-parallel-sharding-strategy "
     "num-distributed-optimizer-instances outer-dp-sharding-strategy overlap-grad-reduce "
     "overlap-param-gather "
     "grad-reduce-in-bf16 ddp-bucket-size distributed-timeout-minutes"},
    {"Data",
     "data-path data-args-path train-data-path valid-data-path test-data-path "
     "per-split-data-args-path mock-data split seq-length data-cache-path dataloader-type "
     "no-data-sharding num-workers eod-mask-loss reset-position-ids reset-attention-mask sft "
     "fim-data fim-rate fim-spm-rate fim-split-sample fim-fragment-rate fim-no-prefix "
     "fim-prefix-token fim-middle-token fim-suffix-token fim-pad-token fim-eod-token"},
    {"Tokenizer",
     "tokenizer-type tokenizer-model vocab-size vocab-file merge-file tiktoken-pattern "
     "tiktoken-num-special-tokens tiktoken-special-tokens tokenizer-hf-no-include-special-tokens"},
    {"Checkpoints",
     "save save-interval load ckpt-step async-save no-save-optim no-load-optim no-load-rng "
     "finetune exit-on-missing-checkpoint use-checkpoint-args use-checkpoint-opt-param-scheduler "
     "override-opt-param-scheduler"},
    {"Evaluation, logs and profiling",
     "eval-interval eval-iters eval-global-batch-size multiple-validation-sets full-validation "
     "log-interval "
     "timing-log-level timing-log-option check-weight-hash-across-dp-replicas-interval "
     "log-params-norm log-num-zeros-in-grad "
     "log-throughput profile profile-step-start profile-step-end profile-ranks "
     "deterministic-mode"},
};

}  // namespace

std::span<const MegatronRow> done_rows() { return kDone; }

}  // namespace tessera::config

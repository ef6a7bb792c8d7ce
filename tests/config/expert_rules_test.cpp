// Layouts of experts that must be refused.
#include "tests/config/wrong_layouts.h"

namespace tessera::test {
namespace {

#define MOE "--num-experts 4 --moe-router-topk 1 --moe-router-pre-softmax --disable-bias-linear "

constexpr WrongLayout kExperts[] = {
    {"--expert-model-parallel-size 2",
     "--expert-model-parallel-size 2: the model has no experts; set --num-experts, or drop it"},
    {"--context-parallel-size 4 --expert-model-parallel-size 8",
     "2 problems in the configuration:\n"
     "  - --expert-model-parallel-size 8: the model has no experts; set --num-experts, or drop it\n"
     "  - --context-parallel-size 4 takes 4 ranks, but this process runs alone: add --nproc 4, or "
     "start 4 processes with mpirun -n 4 (or srun, torchrun)"},
    {"--num-experts 4 --moe-router-topk 5 --disable-bias-linear",
     "--moe-router-topk 5 is more than --num-experts 4: a token goes to different experts; change "
     "one of them"},
    {MOE "--moe-layer-freq [0,2]",
     "--moe-layer-freq '[0,2]': expected a number N for every N-th layer, or a 0 or 1 for each "
     "layer, such as [0,1,1,1] or ([0]*1+[1]*3)"},
    {MOE "--moe-layer-freq ([0]*100000)",
     "--moe-layer-freq '([0]*100000)': expected a number N for every N-th layer, or a 0 or 1 for "
     "each layer, such as [0,1,1,1] or ([0]*1+[1]*3)"},
    {MOE "--moe-layer-freq [0]*60000+[1]*60000",
     "--moe-layer-freq '[0]*60000+[1]*60000': the list is longer than 65536 layers"},
    {MOE "--moe-router-enable-expert-bias",
     "--moe-router-enable-expert-bias 'true' has no effect: it belongs to --num-experts and "
     "--moe-router-score-function sigmoid"},
    {"--num-experts 4 --disable-bias-linear --moe-router-bias-update-rate 0.1",
     "--moe-router-bias-update-rate '0.1' has no effect: it belongs to "
     "--moe-router-enable-expert-bias"},
    {MOE "--moe-token-drop-policy position",
     "--moe-token-drop-policy 'position' has no effect: it belongs to "
     "--moe-expert-capacity-factor"},
    {MOE "--moe-input-jitter-eps 1.5",
     "--moe-input-jitter-eps '1.5': expected a number of at least 0 and at most 1"},
    {"--moe-expert-capacity-factor 1.5",
     "--moe-expert-capacity-factor '1.5' has no effect: it belongs to --num-experts"},
    {MOE "--moe-pad-expert-input-to-capacity",
     "--moe-pad-expert-input-to-capacity 'true' has no effect: it belongs to "
     "--moe-expert-capacity-factor"},
    {MOE "--moe-router-dtype fp64",
     "--moe-router-dtype fp64: the router of a model in f32 computes in fp32; drop the flag"},
    {MOE "--moe-router-dtype fp32 --params-dtype f64",
     "--moe-router-dtype fp32: the router of a model in f64 computes in fp64; drop the flag"},
    {MOE "--moe-router-dtype bf16", "--moe-router-dtype 'bf16': expected fp32 or fp64"},
    {MOE "--moe-use-upcycling",
     "--moe-use-upcycling 'true' has no effect: it belongs to --num-experts with --load or "
     "--load-hf"},
    {MOE "--moe-use-upcycling --load run --moe-ffn-hidden-size 32",
     "--moe-use-upcycling with --moe-ffn-hidden-size 32 and --ffn-hidden-size 256: an expert is a "
     "copy of the MLP, and has its width; drop --moe-ffn-hidden-size"},
    {"--moe-use-upcycling --load run --use-checkpoint-args",
     "--moe-use-upcycling 'true' has no effect: it belongs to --num-experts with --load or "
     "--load-hf"},
    {MOE "--moe-use-upcycling --load run --moe-apply-probs-on-input",
     "--moe-use-upcycling and --moe-apply-probs-on-input exclude each other: with weighted inputs, "
     "experts cannot compute what the dense model does"},
    {MOE "--moe-use-upcycling --load run --moe-shared-expert-intermediate-size 32",
     "--moe-use-upcycling with --moe-shared-expert-intermediate-size 32: a dense model has no "
     "weights for a shared expert; drop one of them"},
    {"--moe-per-layer-logging",
     "--moe-per-layer-logging 'true' has no effect: it belongs to --num-experts"},
    {MOE "--moe-router-load-balancing-type global_aux_loss global_aux_loss",
     "--moe-router-load-balancing-type has global_aux_loss twice: give each once"},
    {MOE "--moe-layer-freq [0]",
     "--moe-layer-freq has no layer with experts: set a 1 in it, or drop --num-experts"},
    {MOE "--moe-layer-freq ([0]*1+[1]*30)",
     "--moe-layer-freq has 31 values for --num-layers 4: give one number N for every N-th layer, "
     "or a 0 or 1 for each layer"},
    {MOE "--moe-router-num-groups 2",
     "--moe-router-num-groups 2 without --moe-router-group-topk: set how many of the groups the "
     "experts of a token are in"},
    {MOE "--moe-router-num-groups 2 --moe-router-group-topk 3",
     "--moe-router-group-topk 3 is more than --moe-router-num-groups 2: change one of them"},
    {MOE "--moe-router-num-groups 3 --moe-router-group-topk 1",
     "--num-experts 4 is not a multiple of --moe-router-num-groups 3: groups have the same number "
     "of experts; change one of them"},
    {"--num-experts 4 --moe-router-topk 3 --disable-bias-linear --moe-router-num-groups 2 "
     "--moe-router-group-topk 1",
     "2 problems in the configuration:\n"
     "  - --moe-router-topk 3 is more than the 2 experts of --moe-router-group-topk 1 groups: "
     "change one of them\n"
     "  - --moe-router-group-best 3 is more than the 2 experts of a group: set 2 or less"},
    {MOE "--moe-aux-loss-coeff 0.1 0.2",
     "--moe-aux-loss-coeff has 2 values for 1 of --moe-router-load-balancing-type: give one for "
     "all, or one for each"},
    {MOE "--moe-router-load-balancing-type aux_loss aux_loss",
     "--moe-router-load-balancing-type has aux_loss twice: give each once"},
    {MOE "--moe-router-load-balancing-type none aux_loss",
     "--moe-router-load-balancing-type has none beside others: give none alone, or drop it"},
    {MOE "--moe-router-load-balancing-type none --moe-aux-loss-coeff 0.1",
     "--moe-aux-loss-coeff with --moe-router-load-balancing-type none has no effect: drop one of "
     "them"},
    {MOE "--moe-shared-expert-intermediate-size 33 --tensor-model-parallel-size 2 "
         "--sequence-parallel --nproc 2",
     "--moe-shared-expert-intermediate-size 33 is not a multiple of --tensor-model-parallel-size "
     "2: every tensor-parallel rank has a part of the shared expert of the same width; change one "
     "of them"},
    {"--num-experts 4 --moe-router-topk 1",
     "--moe-router-topk 1 without --moe-router-pre-softmax: a softmax over one chosen expert is "
     "always 1, and the router would learn nothing; add --moe-router-pre-softmax"},
    {MOE "--add-mlp-bias --moe-shared-expert-intermediate-size 16",
     "--moe-shared-expert-intermediate-size 16: a model with a shared expert has no biases in its "
     "experts; add --disable-bias-linear, without --add-mlp-bias"},
    {MOE "--add-mlp-bias --moe-apply-probs-on-input",
     "--moe-apply-probs-on-input: experts whose inputs are weighted have no biases; add "
     "--disable-bias-linear, without --add-mlp-bias"},
    {"--moe-apply-probs-on-input",
     "--moe-apply-probs-on-input 'true' has no effect: it belongs to --num-experts"},
    {MOE "--expert-model-parallel-size 3 --nproc 3 --global-batch-size 6",
     "--num-experts 4 is not a multiple of --expert-model-parallel-size 3: every rank has the same "
     "number of experts; change one of them"},
    {"--num-experts 1 --moe-router-topk 1 --moe-router-pre-softmax --disable-bias-linear",
     "--num-experts 1: the router's softmax over one expert is always 1, and the router would "
     "learn nothing; set 2 or more, or drop it"},
    {MOE "--moe-ffn-hidden-size 33 --tensor-model-parallel-size 2 --sequence-parallel --nproc 2",
     "--moe-ffn-hidden-size 33 is not a multiple of --expert-tensor-parallel-size 2: every rank "
     "has a part of an expert of the same width; change one of them"},
    {MOE "--tensor-model-parallel-grid 2,2 --nproc 4",
     "--num-experts 4 with --tensor-model-parallel-grid: experts need 1-D tensor parallelism; use "
     "--tensor-model-parallel-size"},
    {MOE "--tensor-model-parallel-size 2 --nproc 2",
     "--num-experts 4 with --tensor-model-parallel-size 2 needs --sequence-parallel: otherwise the "
     "tensor-parallel ranks would send each token to its experts 2 times"},
    {MOE "--expert-model-parallel-size 4 --nproc 2",
     "--nproc 2 is not a multiple of 4, the ranks that its experts take "
     "(--expert-tensor-parallel-size 1 x --expert-model-parallel-size 4 x "
     "--pipeline-model-parallel-size 1): set --nproc 4, or change the sizes"},
    {MOE "--expert-model-parallel-size 4 --nproc 4 --use-distributed-optimizer "
         "--num-distributed-optimizer-instances 2",
     "--num-distributed-optimizer-instances 2 does not divide the 1 copies of each expert into "
     "equal groups: change one of them"},
};
#undef MOE

TEST(WrongLayouts, OfExperts) { expect_messages(kExperts); }

}  // namespace
}  // namespace tessera::test

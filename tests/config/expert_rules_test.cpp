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
    {"--num-experts 4 --disable-bias-linear",
     "--moe-router-topk 2: this version sends each token to one expert; set --moe-router-topk 1"},
    {"--num-experts 4 --moe-router-topk 1",
     "2 problems in the configuration:\n"
     "  - --moe-router-topk 1 without --moe-router-pre-softmax: a softmax over one chosen expert "
     "is "
     "always 1, and the router would learn nothing; add --moe-router-pre-softmax\n"
     "  - --num-experts 4: experts have no biases; add --disable-bias-linear"},
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
     "tensor-parallel ranks would send each token to its expert 2 times"},
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

// Pipelines that must be refused.
#include "tests/config/wrong_layouts.h"

namespace tessera::test {
namespace {

constexpr WrongLayout kPipeline[] = {
    {"--pipeline-model-parallel-size 2",
     "--pipeline-model-parallel-size 2 takes 2 ranks, but this process runs alone: add --nproc 2, "
     "or start 2 processes with mpirun -n 2 (or srun, torchrun)"},
    {"--pipeline-model-parallel-size 6 --num-layers 80 --nproc 6",
     "80 layers over 6 pipeline ranks: 80 is not a multiple of 6; change one of them, "
     "count the embedding or the loss as a layer "
     "(--account-for-embedding-in-pipeline-split, "
     "--account-for-loss-in-pipeline-split), set the first or last rank's layers "
     "(--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers), or "
     "give --pipeline-model-parallel-layout"},
    {"--pipeline-model-parallel-size 8 --nproc 8",
     "4 layers are fewer than the 8 pipeline ranks (--pipeline-model-parallel-size): use fewer "
     "ranks, or give --pipeline-model-parallel-layout"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --decoder-first-pipeline-num-layers 1 "
     "--decoder-last-pipeline-num-layers 1",
     "4 layers over 2 pipeline ranks: the first takes 1 and the last 1, which leaves 2 for 0 "
     "others; change the counts (--decoder-first-pipeline-num-layers, "
     "--decoder-last-pipeline-num-layers), the layers or the ranks"},
    {"--pipeline-model-parallel-size 4 --nproc 4 --pipeline-schedule zb-v",
     "pipeline rank 0 has 1 layer, which its 2 virtual stages (--pipeline-schedule zb-v has two) "
     "cannot share evenly: change the number of layers, of ranks, or the schedule"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--num-virtual-stages-per-pipeline-rank 3",
     "pipeline rank 0 has 2 layers, which its 3 virtual stages cannot share evenly: change "
     "the number of layers, of ranks or of virtual stages"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--num-layers-per-virtual-pipeline-stage 3",
     "4 layers over 2 pipeline ranks cannot be cut into virtual stages of 3 layers "
     "(--num-layers-per-virtual-pipeline-stage): 4 is not a multiple of 2 x 3; change "
     "one of them"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--num-layers-per-virtual-pipeline-stage 1 --num-virtual-stages-per-pipeline-rank "
     "2",
     "--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank and "
     "--pipeline-model-parallel-layout each define the number of virtual stages: give only one of "
     "them"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout "
     "Ett|ttL --decoder-first-pipeline-num-layers 2",
     "--pipeline-model-parallel-layout defines the stages completely: drop "
     "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout "
     "Ett|ttL --account-for-loss-in-pipeline-split",
     "--pipeline-model-parallel-layout defines the stages completely: drop "
     "--account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout "
     "Ett|tL",
     "--pipeline-model-parallel-layout 'Ett|tL' has 3 layers (t), --num-layers is 4"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout "
     "Et|tt|tL",
     "--pipeline-model-parallel-layout 'Et|tt|tL' has 3 stages, which is not a multiple of "
     "--pipeline-model-parallel-size 2: every rank needs the same number"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout "
     "tt|ttL",
     "--pipeline-model-parallel-layout 'tt|ttL': E, the embedding, must come once, at "
     "the very beginning"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout "
     "Ett|(ttL",
     "--pipeline-model-parallel-layout 'Ett|(ttL': a ( that is not closed"},
    {"--pipeline-model-parallel-size 4 --nproc 4 --decoder-first-pipeline-num-layers 2",
     "4 layers over 4 pipeline ranks: the first takes 2, which leaves 2 for 3 others; change the "
     "counts (--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers), the "
     "layers or the ranks"},
    {"--pipeline-model-parallel-size 4 --nproc 4 --decoder-first-pipeline-num-layers 4",
     "4 layers over 4 pipeline ranks: the first takes 4, which leaves 0 for 3 others; change the "
     "counts (--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers), the "
     "layers or the ranks"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --decoder-last-pipeline-num-layers 1 "
     "--account-for-embedding-in-pipeline-split",
     "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers set "
     "counts that --account-for-embedding-in-pipeline-split and "
     "--account-for-loss-in-pipeline-split would derive: drop one or the other"},
    {"--pipeline-model-parallel-size 4 --nproc 4 "
     "--account-for-embedding-in-pipeline-split",
     "4 layers + the embedding over 4 pipeline ranks: 5 is not a multiple of 4; change "
     "one of them, count the embedding or the loss as a layer "
     "(--account-for-embedding-in-pipeline-split, "
     "--account-for-loss-in-pipeline-split), set the first or last rank's layers "
     "(--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers), or "
     "give --pipeline-model-parallel-layout"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule interleaved",
     "--pipeline-schedule interleaved takes virtual stages in turn, but each rank has "
     "one: give --num-virtual-stages-per-pipeline-rank of at least 2"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule zb-h1 "
     "--num-virtual-stages-per-pipeline-rank 2",
     "--pipeline-schedule zb-h1 is for one stage on each rank, but each of 2 has 2 "
     "virtual stages: use interleaved, or drop them"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule zb-v "
     "--num-virtual-stages-per-pipeline-rank 4",
     "--pipeline-schedule zb-v has 2 virtual stages on each rank, not 4: drop "
     "--num-virtual-stages-per-pipeline-rank"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--num-virtual-stages-per-pipeline-rank 2 --global-batch-size 2",
     "interleaved stages take 2 microbatches in a row, but a step has 1 for each "
     "data-parallel rank: raise --global-batch-size, lower --micro-batch-size, or drop "
     "the virtual stages"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--num-virtual-stages-per-pipeline-rank 2 --global-batch-size 6",
     "3 microbatches in groups of 2 leave 1, fewer than the 2 pipeline ranks: change "
     "--global-batch-size or --microbatch-group-size-per-virtual-pipeline-stage"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--num-virtual-stages-per-pipeline-rank 2 "
     "--microbatch-group-size-per-virtual-pipeline-stage 1",
     "--microbatch-group-size-per-virtual-pipeline-stage 1 is less than "
     "--pipeline-model-parallel-size 2, so the last rank would idle: raise it"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--num-virtual-stages-per-pipeline-rank 2 "
     "--microbatch-group-size-per-virtual-pipeline-stage 8",
     "interleaved stages take 8 microbatches in a row, but a step has 4 for each "
     "data-parallel rank: raise --global-batch-size, lower --micro-batch-size, or "
     "lower the group size"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule zb-h1 "
     "--recompute-granularity full --recompute-method uniform",
     "--pipeline-schedule zb-h1 computes weight gradients after input gradients, from "
     "activations that --recompute-granularity full does not keep: use selective, or "
     "another schedule"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule search "
     "--pipeline-action-times 1 2",
     "--pipeline-action-times has 2 numbers: give 3 (forward, input gradient, weight "
     "gradient) for all stages alike, or 6 for 2 stages"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-action-times 1 2 1",
     "--pipeline-action-times '1' '2' '1' has no effect: it belongs to "
     "--pipeline-schedule search"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-memory-limit 3",
     "--pipeline-memory-limit '3' has no effect: it belongs to --pipeline-schedule "
     "search"},
    {"--pipeline-model-parallel-size 2 --nproc 2 "
     "--microbatch-group-size-per-virtual-pipeline-stage 4",
     "--microbatch-group-size-per-virtual-pipeline-stage '4' has no effect: it belongs "
     "to virtual stages"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout Ett|ttL "
     "--microbatch-group-size-per-virtual-pipeline-stage 4",
     "--microbatch-group-size-per-virtual-pipeline-stage 4 has no effect: each pipeline "
     "rank has one stage; drop it"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule zb-v "
     "--num-virtual-stages-per-pipeline-rank 2 "
     "--microbatch-group-size-per-virtual-pipeline-stage 4",
     "--microbatch-group-size-per-virtual-pipeline-stage 4 has no effect: "
     "--pipeline-schedule zb-v has an order of its own; drop it"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule zb-v --num-layers 8 "
     "--num-layers-per-virtual-pipeline-stage 1",
     "--pipeline-schedule zb-v has 2 virtual stages on each of 2 ranks, of 1 layers each "
     "(--num-layers-per-virtual-pipeline-stage): that makes 4 layers, not --num-layers 8; "
     "change one of them, or drop --num-layers-per-virtual-pipeline-stage"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --num-layers 8 "
     "--num-layers-per-virtual-pipeline-stage 2 --decoder-first-pipeline-num-layers 6",
     "--num-layers-per-virtual-pipeline-stage gives all virtual stages the same number of layers, "
     "which --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers contradict: "
     "give --num-virtual-stages-per-pipeline-rank instead, or drop them"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --recompute-granularity full "
     "--recompute-method block --recompute-num-layers 3",
     "--recompute-num-layers 3 is more than the 2 layers of the largest pipeline stage, and it "
     "applies to each stage: lower it"},
    {"--num-virtual-stages-per-pipeline-rank 2",
     "--num-virtual-stages-per-pipeline-rank '2' has no effect: it belongs to "
     "--pipeline-model-parallel-size above 1"},
    {"--decoder-first-pipeline-num-layers 2",
     "--decoder-first-pipeline-num-layers '2' has no effect: it belongs to "
     "--pipeline-model-parallel-size above 1"},
    {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule fastest",
     "--pipeline-schedule 'fastest': expected one of auto, gpipe, 1f1b, interleaved, "
     "zb-h1, zb-v, search"},
};

TEST(WrongLayouts, OfPipelines) { expect_messages(kPipeline); }

}  // namespace
}  // namespace tessera::test

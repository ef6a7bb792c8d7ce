// Layouts that must be refused before a rank starts, each with its whole message.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tests/config/command_lines.h"

namespace tessera {
namespace {

struct WrongLayout {
  const char* line;  ///< added to the training below, in place of flags with the same name
  const char* message;
  int launched = 0;  ///< ranks that a launcher started; 0: none
};

// Whether `flag` is one of the line's words.
bool gives(std::string_view line, std::string_view flag) {
  return (std::string(line) + " ").find(std::string(flag) + " ") != std::string::npos;
}

// The flags of a small training without those that `line` gives itself.
std::string training_with(std::string_view line) {
  constexpr std::string_view kFlags[] = {
      "--num-layers 4",  "--hidden-size 64",       "--num-attention-heads 8",
      "--seq-length 32", "--micro-batch-size 2",   "--ffn-hidden-size 256",
      "--lr 1e-3",       "--global-batch-size 8",  "--train-iters 100",
      "--mock-data",     "--normalization RMSNorm"};
  std::string all(line);
  for (const std::string_view flag : kFlags)
    if (!gives(line, flag.substr(0, flag.find(' ')))) all += " " + std::string(flag);
  return all;
}

void check_layout(const char* line, int launched) {
  const std::optional<int> ranks = launched > 0 ? std::optional(launched) : std::nullopt;
  ParsedCommand parsed = test::parse("train", training_with(line));
  resolve(parsed.options, ranks);
  validate(parsed, ranks);
}

std::string message_for(const WrongLayout& layout) {
  try {
    check_layout(layout.line, layout.launched);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

constexpr WrongLayout kRanks[] = {
    {"--tensor-model-parallel-size 4",
     "--tensor-model-parallel-size 4 takes 4 ranks, but this process runs alone: add --nproc 4, or "
     "start 4 processes with mpirun -n 4 (or srun, torchrun)"},
    {"--tensor-model-parallel-grid 2,2",
     "--tensor-model-parallel-grid 2,2 takes 4 ranks, but this process runs alone: add --nproc 4, "
     "or start 4 processes with mpirun -n 4 (or srun, torchrun)"},
    {"--tensor-model-parallel-size 4 --nproc 6",
     "--nproc 6 is not a multiple of 4, the ranks that one model takes "
     "(--tensor-model-parallel-size 4): set --nproc 4, or change the sizes"},
    {"--tensor-model-parallel-size 8 --nproc 4",
     "--nproc 4 is not a multiple of 8, the ranks that one model takes "
     "(--tensor-model-parallel-size 8): set --nproc 8, or change the sizes"},
    {"--tensor-model-parallel-size 4",
     "a launcher (mpirun, srun or torchrun) started 6 ranks, which is not a multiple of 4, the "
     "ranks that one model takes (--tensor-model-parallel-size 4): start 4, or change the sizes",
     6},
    {"--tensor-model-parallel-size 4",
     "a launcher (mpirun, srun or torchrun) started 1 rank, which is not a multiple of 4, the "
     "ranks "
     "that one model takes (--tensor-model-parallel-size 4): start 4, or change the sizes",
     1},
    {"--nproc 4 --use-distributed-optimizer --num-distributed-optimizer-instances 3",
     "--num-distributed-optimizer-instances 3 does not divide the 4 data-parallel ranks into equal "
     "groups: change one of them"},
    {"--nproc 2 --dump-step out --attention-dropout 0 --hidden-dropout 0",
     "--dump-step writes the batch of one data-parallel rank, but there are 2: start one copy of "
     "the model"},
    {"--nproc 4 --micro-batch-size 2 --global-batch-size 12",
     "--global-batch-size 12 is not a multiple of --micro-batch-size 2 x data-parallel size 4: "
     "change one of them"},
    {"--tensor-model-parallel-size 2 --nproc 4",
     "--nproc 4 starts ranks, but a launcher (mpirun, srun or torchrun) started 2 ranks already: "
     "drop --nproc",
     2},
    {"--launch processes",
     "--launch processes starts the ranks of --nproc, which is 1: give --nproc above 1, or drop "
     "--launch"},
    {"--tensor-model-parallel-size 2 --launch processes",
     "--launch processes is for ranks that --nproc starts, but a launcher (mpirun, srun or "
     "torchrun) started 2 ranks already: drop --launch",
     2},
    {"--tensor-model-parallel-size 2048 --nproc 2048 --num-attention-heads 2048 --hidden-size 2048 "
     "--ffn-hidden-size 2048 --padded-vocab-size 2048",
     "--nproc 2048: one program starts at most 1024 ranks; start more with mpirun, srun or "
     "torchrun"},
    {"--profile --profile-ranks 4 --tensor-model-parallel-size 4 --nproc 4",
     "--profile-ranks 4: the ranks of this run are 0 to 3"},
};

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

constexpr WrongLayout kContext[] = {
    {"--context-parallel-size 2",
     "--context-parallel-size 2 takes 2 ranks, but this process runs alone: add --nproc 2, or "
     "start 2 processes with mpirun -n 2 (or srun, torchrun)"},
    {"--context-parallel-size 2 --nproc 3",
     "--nproc 3 is not a multiple of 2, the ranks that one model takes (--context-parallel-size "
     "2): set --nproc 2, or change the sizes"},
    {"--context-parallel-size 2 --nproc 2 --seq-length 30",
     "--seq-length 30 is not a multiple of 4, which is 2 x --context-parallel-size 2: every rank "
     "works on two chunks of each sequence, all of the same length; set it to 28 or 32, or change "
     "the sizes"},
    {"--context-parallel-size 3 --nproc 3 --seq-length 32 --global-batch-size 6",
     "--seq-length 32 is not a multiple of 6, which is 2 x --context-parallel-size 3: every rank "
     "works on two chunks of each sequence, all of the same length; set it to 30 or 36, or change "
     "the sizes"},
    {"--context-parallel-size 2 --nproc 2 --seq-length 3",
     "--seq-length 3 is not a multiple of 4, which is 2 x --context-parallel-size 2: every rank "
     "works on two chunks of each sequence, all of the same length; set it to 4, or change the "
     "sizes"},
    {"--context-parallel-size 2 --tensor-model-parallel-size 4 --sequence-parallel --nproc 8 "
     "--seq-length 40",
     "--seq-length 40 is not a multiple of 16, which is 2 x --context-parallel-size 2 x "
     "--tensor-model-parallel-size 4: every rank works on two chunks of each sequence, all of the "
     "same length; set it to 32 or 48, or change the sizes"},
    {"--context-parallel-size 2 --tensor-model-parallel-size 4 --nproc 8 --seq-length 4 "
     "--micro-batch-size 1 --recompute-granularity full --recompute-method uniform "
     "--recompute-num-layers 1 --distribute-saved-activations",
     "--seq-length 4 / --context-parallel-size 2 x --micro-batch-size 1 is not a multiple of "
     "--tensor-model-parallel-size 4: with --distribute-saved-activations every rank keeps a "
     "layer's inputs for the same number of tokens; change one of them, or drop "
     "--distribute-saved-activations"},
};

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
    {"--pipeline-model-parallel-size 2 --nproc 2 --no-overlap-p2p-communication",
     "--no-overlap-p2p-communication: known Megatron flag, not supported yet by "
     "Tessera: messages between stages are always posted ahead; drop the flag"},
};

constexpr WrongLayout kTensor[] = {
    {"--tensor-model-parallel-size 4 --nproc 4 --num-attention-heads 6 --hidden-size 96",
     "--num-attention-heads 6 is not a multiple of --tensor-model-parallel-size 4: every "
     "tensor-parallel rank computes the same number of heads; change one of them"},
    {"--tensor-model-parallel-size 4 --nproc 4 --num-attention-heads 24 --hidden-size 96 "
     "--group-query-attention --num-query-groups 3",
     "--num-query-groups 3 and --tensor-model-parallel-size 4: one must be a multiple of the "
     "other, "
     "so that a rank holds whole key/value heads, or ranks hold copies of one; change one of them"},
    {"--tensor-model-parallel-size 4 --nproc 4 --num-attention-heads 12 --hidden-size 96 "
     "--group-query-attention --num-query-groups 6",
     "--num-query-groups 6 and --tensor-model-parallel-size 4: one must be a multiple of the "
     "other, "
     "so that a rank holds whole key/value heads, or ranks hold copies of one; change one of them"},
    {"--tensor-model-parallel-size 4 --nproc 4 --ffn-hidden-size 250",
     "--ffn-hidden-size 250 is not a multiple of --tensor-model-parallel-size 4: every "
     "tensor-parallel rank computes a part of the MLP of the same width; change one of them"},
    {"--tensor-model-parallel-size 8 --nproc 8 --tokenizer-type NullTokenizer --vocab-size 5",
     "a vocabulary of 6 tokens cannot be split over 8 tensor-parallel ranks: use at most 6 of "
     "them, or raise --padded-vocab-size"},
    {"--tensor-model-parallel-size 4 --nproc 4 --micro-batch-size 3",
     "--global-batch-size 8 is not a multiple of --micro-batch-size 3 x data-parallel size 1: "
     "change one of them"},
    {"--sequence-parallel",
     "--sequence-parallel splits the sequence over the tensor-parallel ranks, but "
     "--tensor-model-parallel-size is 1: raise it, or drop --sequence-parallel"},
    {"--sequence-parallel --tensor-model-parallel-size 4 --nproc 4 --seq-length 30",
     "--seq-length 30 is not a multiple of --tensor-model-parallel-size 4: with "
     "--sequence-parallel every rank holds the same number of positions; change one of them"},
    {"--sequence-parallel --tensor-model-parallel-grid 2,2 --nproc 4",
     "--sequence-parallel and --tensor-model-parallel-grid exclude each other: the grid splits "
     "what "
     "sequence parallelism would split; drop --sequence-parallel"},
};

// Each with full recompute.
constexpr std::string_view kFullRecompute =
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 ";

constexpr WrongLayout kSaved[] = {
    {"--distribute-saved-activations",
     "--distribute-saved-activations splits kept layer inputs over the tensor-parallel ranks, but "
     "--tensor-model-parallel-size is 1: raise it, or drop --distribute-saved-activations"},
    {"--distribute-saved-activations --tensor-model-parallel-size 2 --nproc 2 --sequence-parallel",
     "--distribute-saved-activations and --sequence-parallel exclude each other: every rank keeps "
     "only a part of the layer inputs already; drop --distribute-saved-activations"},
    {"--distribute-saved-activations --tensor-model-parallel-grid 2,2 --nproc 4",
     "--distribute-saved-activations and --tensor-model-parallel-grid exclude each other: every "
     "rank keeps only a part of the layer inputs already; drop --distribute-saved-activations"},
    {"--distribute-saved-activations --tensor-model-parallel-size 8 --nproc 8 --seq-length 5",
     "--seq-length 5 x --micro-batch-size 2 is not a multiple of --tensor-model-parallel-size 8: "
     "with --distribute-saved-activations every rank keeps a layer's inputs for the same number of "
     "tokens; change one of them, or drop --distribute-saved-activations"},
};

constexpr WrongLayout kTensor2d[] = {
    {"--tensor-model-parallel-grid 2,3",
     "--tensor-model-parallel-grid '2,3': the grid must be square, since its rows and columns "
     "exchange parts of the same size: give 2,2 or 3,3"},
    {"--tensor-model-parallel-grid 4",
     "--tensor-model-parallel-grid '4': expected two equal numbers from 2 to 1024, such as 2,2 for "
     "a grid of 4 ranks"},
    {"--tensor-model-parallel-grid 1,1",
     "--tensor-model-parallel-grid '1,1': expected two equal numbers from 2 to 1024, such as 2,2 "
     "for a grid of 4 ranks"},
    {"--tensor-model-parallel-grid 2,2 --tensor-model-parallel-size 8 --nproc 8",
     "--tensor-model-parallel-grid 2,2 has 4 ranks, but --tensor-model-parallel-size is 8: drop "
     "it, "
     "or set it to 4"},
    {"--tensor-model-parallel-grid 2,2 --tensor-model-parallel-size 1 --nproc 4",
     "--tensor-model-parallel-grid 2,2 has 4 ranks, but --tensor-model-parallel-size is 1: drop "
     "it, "
     "or set it to 4"},
    {"--tensor-model-parallel-grid 2,2 --nproc 4 --micro-batch-size 1",
     "--micro-batch-size 1 is not a multiple of 2, the side of --tensor-model-parallel-grid 2,2: "
     "the grid's rows split the samples; change one of them"},
    {"--tensor-model-parallel-grid 2,2 --nproc 4 --hidden-size 63 --kv-channels 8",
     "--hidden-size 63 is not a multiple of 2, the side of --tensor-model-parallel-grid 2,2: the "
     "grid's columns split the hidden size; change one of them"},
    {"--tensor-model-parallel-grid 2,2 --nproc 4 --num-attention-heads 7 --kv-channels 8",
     "--num-attention-heads 7 is not a multiple of 2, the side of --tensor-model-parallel-grid "
     "2,2: "
     "the grid's columns split the heads; change one of them"},
    {"--tensor-model-parallel-grid 2,2 --nproc 4 --group-query-attention --num-query-groups 1",
     "--num-query-groups 1 is not a multiple of 2, the side of --tensor-model-parallel-grid 2,2: "
     "the grid's columns split the key/value heads; change one of them"},
    {"--tensor-model-parallel-grid 2,2 --nproc 4 --ffn-hidden-size 255",
     "--ffn-hidden-size 255 is not a multiple of 2, the side of --tensor-model-parallel-grid 2,2: "
     "the grid's columns split the MLP's width; change one of them"},
    {"--tensor-model-parallel-grid 3,3 --nproc 9 --micro-batch-size 4 --num-attention-heads 4",
     "4 problems in the configuration:\n"
     "  - --micro-batch-size 4 is not a multiple of 3, the side of --tensor-model-parallel-grid "
     "3,3: "
     "the grid's rows split the samples; change one of them\n"
     "  - --hidden-size 64 is not a multiple of 3, the side of --tensor-model-parallel-grid 3,3: "
     "the "
     "grid's columns split the hidden size; change one of them\n"
     "  - --num-attention-heads 4 is not a multiple of 3, the side of --tensor-model-parallel-grid "
     "3,3: the grid's columns split the heads; change one of them\n"
     "  - --ffn-hidden-size 256 is not a multiple of 3, the side of --tensor-model-parallel-grid "
     "3,3: the grid's columns split the MLP's width; change one of them"},
};

template <std::size_t N>
void expect_messages(const WrongLayout (&layouts)[N]) {
  for (const WrongLayout& layout : layouts)
    EXPECT_EQ(message_for(layout), layout.message) << layout.line;
}

TEST(WrongLayouts, OfRanks) { expect_messages(kRanks); }
TEST(WrongLayouts, OfExperts) { expect_messages(kExperts); }
TEST(WrongLayouts, OfContextParallelism) { expect_messages(kContext); }
TEST(WrongLayouts, OfPipelines) { expect_messages(kPipeline); }
TEST(WrongLayouts, OfTensorParallelism) { expect_messages(kTensor); }

TEST(WrongLayouts, OfSavedActivations) {
  for (const WrongLayout& layout : kSaved) {
    const std::string line = std::string(kFullRecompute) + layout.line;
    EXPECT_EQ(message_for({line.c_str(), ""}), layout.message) << line;
  }
}

TEST(WrongLayouts, OfTensor2d) { expect_messages(kTensor2d); }

TEST(WrongLayouts, AreReportedTogether) {
  EXPECT_EQ(
      message_for({"--tensor-model-parallel-size 3 --sequence-parallel --min-lr 1", ""}),
      "5 problems in the configuration:\n"
      "  - --min-lr 1 is above --lr 0.001\n"
      "  - --tensor-model-parallel-size 3 takes 3 ranks, but this process runs alone: add "
      "--nproc 3, or start 3 processes with mpirun -n 3 (or srun, torchrun)\n"
      "  - --num-attention-heads 8 is not a multiple of --tensor-model-parallel-size 3: every "
      "tensor-parallel rank computes the same number of heads; change one of them\n"
      "  - --ffn-hidden-size 256 is not a multiple of --tensor-model-parallel-size 3: every "
      "tensor-parallel rank computes a part of the MLP of the same width; change one of them\n"
      "  - --seq-length 32 is not a multiple of --tensor-model-parallel-size 3: with "
      "--sequence-parallel every rank holds the same number of positions; change one of them");
}

TEST(Layouts, ThatWorkAreTaken) {
  const struct {
    const char* line;
    int launched = 0;
  } layouts[] = {
      {"--tensor-model-parallel-size 4 --nproc 4"},
      {"--tensor-model-parallel-size 4 --nproc 4 --sequence-parallel --launch processes"},
      {"--tensor-model-parallel-size 4", 4},
      {"--tensor-model-parallel-size 4 --nproc 4 --launch processes", 4},
      {"--nproc 1 --launch processes", 1},
      {"--tensor-model-parallel-grid 2,2 --nproc 4"},
      {"--pipeline-model-parallel-size 4 --nproc 4"},
      {"--pipeline-model-parallel-size 2 --nproc 4 --num-virtual-stages-per-pipeline-rank 2"},
      {"--pipeline-model-parallel-size 2 --nproc 2 --num-layers-per-virtual-pipeline-stage 1"},
      {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule zb-v"},
      {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-schedule zb-v "
       "--num-layers-per-virtual-pipeline-stage 1"},
      {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout Et|t|t|tL "
       "--microbatch-group-size-per-virtual-pipeline-stage 4"},
      {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout Ettt|tL "
       "--recompute-granularity full --recompute-method block --recompute-num-layers 3"},
      {"--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout Et|t|t|tL"},
      {"--pipeline-model-parallel-size 2 --nproc 2 --decoder-first-pipeline-num-layers 1"},
      {"--pipeline-model-parallel-size 3 --nproc 3 --account-for-embedding-in-pipeline-split "
       "--account-for-loss-in-pipeline-split"},
      {"--pipeline-model-parallel-size 4 --nproc 8 --pipeline-schedule search "
       "--pipeline-memory-limit 3 --pipeline-action-times 1 1.5 0.5"},
      {"--pipeline-schedule zb-h1"},
      {"--tensor-model-parallel-grid 2,2 --tensor-model-parallel-size 4", 4},
      {"--tensor-model-parallel-size 8 --nproc 8 --group-query-attention --num-query-groups 1"},
      {"--tensor-model-parallel-size 8 --nproc 8 --group-query-attention --num-query-groups 4"},
      {"--tensor-model-parallel-size 2 --nproc 2 --group-query-attention --num-query-groups 4"},
      {"--tensor-model-parallel-size 3 --nproc 3 --num-attention-heads 3 --hidden-size 65 "
       "--kv-channels 8 --ffn-hidden-size 255"},
      {"--distribute-saved-activations --tensor-model-parallel-size 2 --nproc 2 "
       "--recompute-granularity full --recompute-method block --recompute-num-layers 2"},
      {"--profile --profile-ranks 0 3 --tensor-model-parallel-size 4 --nproc 4"},
  };
  for (const auto& layout : layouts)
    EXPECT_NO_THROW(check_layout(layout.line, layout.launched)) << layout.line;
}

}  // namespace
}  // namespace tessera

// Layouts that must be refused before a rank starts, each with its whole message.
#include "tests/config/wrong_layouts.h"

namespace tessera::test {
namespace {

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

constexpr WrongLayout kContext[] = {
    {"--context-parallel-size 2",
     "--context-parallel-size 2 takes 2 ranks, but this process runs alone: add --nproc 2, or "
     "start 2 processes with mpirun -n 2 (or srun, torchrun)"},
    {"--context-parallel-size 2 --nproc 3",
     "--nproc 3 is not a multiple of 2, the ranks that one model takes (--context-parallel-size "
     "2): set --nproc 2, or change the sizes"},
    {"--context-parallel-size 2 --nproc 2 --cp-comm-type p2p a2a p2p",
     "--cp-comm-type has 3 kinds for 4 layers: give one, or one for each layer"},
    {"--context-parallel-size 4 --nproc 4 --num-attention-heads 2 --cp-comm-type a2a "
     "--global-batch-size 2",
     "--cp-comm-type a2a: 2 query heads on a tensor-parallel rank cannot be shared by "
     "--context-parallel-size 4 ranks; use p2p, all_gather or a2a+p2p"},
    {"--context-parallel-size 4 --nproc 4 --cp-comm-type a2a+p2p",
     "--cp-comm-type a2a+p2p needs --hierarchical-context-parallel-sizes A B, both at least 2, "
     "with A x B = --context-parallel-size 4, got none"},
    {"--context-parallel-size 4 --nproc 4 --cp-comm-type a2a+p2p "
     "--hierarchical-context-parallel-sizes 2 4",
     "--cp-comm-type a2a+p2p needs --hierarchical-context-parallel-sizes A B, both at least 2, "
     "with A x B = --context-parallel-size 4, got 2 4"},
    {"--context-parallel-size 4 --nproc 4 --cp-comm-type a2a+p2p --num-attention-heads 2 "
     "--hierarchical-context-parallel-sizes 4 --global-batch-size 2",
     "--cp-comm-type a2a+p2p needs --hierarchical-context-parallel-sizes A B, both at least 2, "
     "with A x B = --context-parallel-size 4, got 4"},
    {"--context-parallel-size 8 --nproc 8 --cp-comm-type a2a+p2p --num-attention-heads 2 "
     "--hierarchical-context-parallel-sizes 4 2 --global-batch-size 2",
     "--hierarchical-context-parallel-sizes 4 2: 2 query heads on a tensor-parallel rank cannot be "
     "shared by 4 ranks; make the first size smaller"},
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
     "--sequence-parallel 'true' has no effect: it belongs to --tensor-model-parallel-size above "
     "1"},
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

TEST(WrongLayouts, OfRanks) { expect_messages(kRanks); }
TEST(WrongLayouts, OfContextParallelism) { expect_messages(kContext); }
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
}  // namespace tessera::test

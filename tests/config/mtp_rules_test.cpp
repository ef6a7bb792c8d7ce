// What multi-token prediction cannot be combined with, and the flags that belong to it.
#include "tests/config/wrong_layouts.h"

namespace tessera::test {
namespace {

#define MTP "--mtp-num-layers 1 --position-embedding-type rope "

constexpr WrongLayout kMtp[] = {
    {"--mtp-num-layers 1",
     "--mtp-num-layers 1 looks up word embeddings alone, but --position-embedding-type is "
     "learned_absolute: set rope or none"},
    {"--mtp-num-layers 9 --position-embedding-type rope",
     "--mtp-num-layers '9': expected an integer from 0 to 8"},
    {MTP "--mtp-loss-scaling-factor 0",
     "--mtp-loss-scaling-factor '0': expected a number above 0 and at most 1000"},
    {"--mtp-loss-scaling-factor 0.3",
     "--mtp-loss-scaling-factor '0.3' has no effect: it belongs to --mtp-num-layers"},
    {MTP "--tensor-model-parallel-grid 2,2 --nproc 4",
     "--mtp-num-layers with --tensor-model-parallel-grid: multi-token prediction needs 1-D tensor "
     "parallelism; use --tensor-model-parallel-size"},
    {MTP "--dump-step folder --attention-dropout 0 --hidden-dropout 0",
     "--dump-step is for comparing with transformers, which has no multi-token prediction: drop "
     "one of --dump-step and --mtp-num-layers"},
    {MTP "--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout Ettm|ttL",
     "--pipeline-model-parallel-layout 'Ettm|ttL': m, a layer for multi-token prediction, must "
     "come right before L, once for each of --mtp-num-layers 1"},
    {MTP "--pipeline-model-parallel-size 2 --nproc 2 --pipeline-model-parallel-layout Ett|ttmmL",
     "--pipeline-model-parallel-layout 'Ett|ttmmL': m, a layer for multi-token prediction, must "
     "come right before L, once for each of --mtp-num-layers 1"},
};

TEST(WrongLayouts, OfMultiTokenPrediction) { expect_messages(kMtp); }

TEST(MtpFlags, AreMegatrons) {
  const auto model = [](const char* line) {
    return accept("train", training_with(line)).options.model;
  };
  EXPECT_EQ(model(MTP).mtp_num_layers, 1);
  EXPECT_EQ(model(MTP).mtp_loss_scaling_factor, 0.1);
  EXPECT_EQ(model("--mtp-num-layers 0").mtp_num_layers, 0);
  EXPECT_EQ(model(MTP "--pipeline-model-parallel-size 2 --nproc 2 "
                      "--pipeline-model-parallel-layout Ettt|tmL")
                .mtp_num_layers,
            1);
}
#undef MTP

}  // namespace
}  // namespace tessera::test

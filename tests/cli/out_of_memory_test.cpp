// A model that does not fit into a GPU, as a user meets it: the program ends at once and says what
// takes the memory. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "tests/cuda/on_gpu.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

class OutOfGpuMemory : public test::OnGpu {};

// Some 600 GB of activations. A program that hangs is ended by `timeout`, with exit code 124.
TEST_P(OutOfGpuMemory, EndsTheProgramWithAListOfWhatIsHeld) {
  const test::TempFolder temp;
  const test::ProgramResult result = test::run_program("/usr/bin/env",
                                                       {"timeout",
                                                        "120",
                                                        TESSERA_PROGRAM,
                                                        "train",
                                                        "--device",
                                                        "cuda",
                                                        "--params-dtype",
                                                        std::string(to_string(GetParam())),
                                                        "--mock-data",
                                                        "--num-layers",
                                                        "12",
                                                        "--hidden-size",
                                                        "768",
                                                        "--num-attention-heads",
                                                        "12",
                                                        "--seq-length",
                                                        "1024",
                                                        "--max-position-embeddings",
                                                        "1024",
                                                        "--micro-batch-size",
                                                        "2048",
                                                        "--train-iters",
                                                        "2",
                                                        "--lr",
                                                        "1e-4",
                                                        "--eval-iters",
                                                        "0",
                                                        "--save",
                                                        "run",
                                                        "--save-interval",
                                                        "2"},
                                                       temp.path());
  EXPECT_EQ(result.exit_code, 1) << result.error;
  for (const char* part :
       {"out of memory", " MiB for activations)", "Held already, in MiB: parameters ", "gradients ",
        "optimizer ", "workspace ", "--micro-batch-size"})
    EXPECT_NE(result.error.find(part), std::string::npos)
        << "lacks '" << part << "': " << result.error;
  for (const auto& entry : fs::directory_iterator(temp / "run"))
    EXPECT_EQ(entry.path().filename(), ".lock") << "was written";
}

INSTANTIATE_TEST_SUITE_P(Types, OutOfGpuMemory, testing::Values(DType::bf16), test::name_of_dtype);

}  // namespace
}  // namespace tessera

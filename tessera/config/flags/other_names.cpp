#include "tessera/config/flags/other_names.h"

namespace tessera::config {
namespace {

constexpr std::string_view kTensor = "did you mean --tensor-model-parallel-size?";
constexpr std::string_view kMeansPipeline = "did you mean --pipeline-model-parallel-size?";
constexpr std::string_view kContext = "did you mean --context-parallel-size?";
constexpr std::string_view kExpert = "did you mean --expert-model-parallel-size?";
constexpr std::string_view kExpertTensor = "did you mean --expert-tensor-parallel-size?";
constexpr std::string_view kSequence = "did you mean --sequence-parallel?";
constexpr std::string_view kData =
    "the data-parallel size has no flag: it is the number of ranks (of --nproc or a launcher) "
    "divided by the other sizes";
constexpr std::string_view kZero =
    "did you mean --use-distributed-optimizer (ZeRO-1), or --use-megatron-fsdp with "
    "--data-parallel-sharding-strategy (1 to 3)?";

constexpr std::string_view kVirtual = "did you mean --num-virtual-stages-per-pipeline-rank?";
constexpr std::string_view kRanks = "did you mean --nproc?";
constexpr std::string_view kMicrobatches =
    "microbatches follow from --global-batch-size, --micro-batch-size and the data-parallel size";

constexpr OtherName kOtherNames[] = {
    {"tp", kTensor},
    {"tp-size", kTensor},
    {"tensor-parallel", kTensor},
    {"tensor-parallel-size", kTensor},
    {"pp", kMeansPipeline},
    {"pp-size", kMeansPipeline},
    {"pipeline-parallel", kMeansPipeline},
    {"pipeline-parallel-size", kMeansPipeline},
    {"virtual-pipeline-model-parallel-size", kVirtual},
    {"vpp", kVirtual},
    {"nproc-per-node", kRanks},
    {"num-microbatches", kMicrobatches},
    {"gradient-accumulation-steps", kMicrobatches},
    {"cp", kContext},
    {"cp-size", kContext},
    {"context-parallel", kContext},
    {"ep", kExpert},
    {"ep-size", kExpert},
    {"expert-parallel", kExpert},
    {"expert-parallel-size", kExpert},
    {"etp", kExpertTensor},
    {"sp", kSequence},
    {"dp", kData},
    {"dp-size", kData},
    {"data-parallel", kData},
    {"data-parallel-size", kData},
    {"fsdp", kZero},
    {"zero", kZero},
    {"zero-stage", kZero},
    {"zero-optimization", kZero},
};

}  // namespace

std::span<const OtherName> other_names() { return kOtherNames; }

std::optional<std::string_view> hint_for_other_name(std::string_view name) {
  for (const OtherName& other : other_names())
    if (other.name == name) return other.hint;
  return std::nullopt;
}

}  // namespace tessera::config

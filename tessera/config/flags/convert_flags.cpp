// Checkpoints that leave for other programs and models that come from there, and what inspect does
// with a checkpoint.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr IntegerRange kShardBytes = {1, std::int64_t{1} << 50};

Flag shard_size_flag() {
  Flag flag = make_flag("max-shard-size", Arity::one, "SIZE",
                        "maximum size of a weight file, such as 500MB, 5GB or 4GiB");
  flag.set = [](Settings& s, const Values& values) {
    s.convert.max_shard_bytes = parse_size(values.at(0), kShardBytes);
  };
  flag.get = [](const Settings& s) { return Values{size_text(s.convert.max_shard_bytes)}; };
  return std::move(flag).only_if([](const Settings& s) { return !s.convert.to_hf.empty(); },
                                 "--to-hf");
}

std::vector<Flag> convert_flags() {
  return {
      path("from-hf", at(&ConvertOptions::from_hf), "FOLDER",
           "import a Hugging Face model as a checkpoint of iteration 0 in --save")
          .one_of("conversion"),
      path("to-hf", at(&ConvertOptions::to_hf), "FOLDER",
           "export the checkpoint of --load as a Hugging Face model")
          .one_of("conversion"),
      path("to-trtllm", at(&ConvertOptions::to_trtllm), "FOLDER",
           "export the checkpoint of --load for TensorRT-LLM")
          .one_of("conversion"),
      integer("tp", at(&ConvertOptions::ranks), {1, kMaxStartedRanks},
              "tensor-parallel size for TensorRT-LLM")
          .only_if([](const Settings& s) { return !s.convert.to_trtllm.empty(); }, "--to-trtllm"),
      shard_size_flag(),
  };
}

std::vector<Flag> inspect_flags() {
  std::vector<Flag> flags = {
      toggle("tensors", at(&InspectOptions::tensors),
             "list the tensors of the checkpoint: shape, type, and location of their slices"),
      toggle("verify", at(&InspectOptions::verify),
             "verify the checksums of all files of the checkpoint; exit code 1 if one is damaged"),
      path("diff", at(&InspectOptions::diff), "FOLDER",
           "compare the checkpoint with this one, value by value; exit code 1 if they differ"),
  };
  for (Flag& flag : flags) {
    flag = std::move(flag)
               .only_if([](const Settings& s) { return !s.options.train.load.empty(); },
                        "--load FOLDER")
               .never_shown();
    flag.command_line_only = true;
  }
  return flags;
}

}  // namespace

void append_convert_flags(std::vector<Flag>& table) {
  append(table, Group::conversion, {Command::convert}, convert_flags());
  append(table, Group::checkpoints, {Command::inspect}, inspect_flags());
}

}  // namespace tessera::config

// Checkpoints that leave for other programs and models that come from there, and what inspect does
// with a checkpoint.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr IntegerRange kShardBytes = {1, std::int64_t{1} << 50};

Flag shard_size_flag() {
  Flag flag = make_flag("max-shard-size", Arity::one, "SIZE",
                        "most bytes of a file of weights, such as 500MB, 5GB or 4GiB");
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
           "a Hugging Face model becomes a checkpoint of iteration 0 in --save")
          .one_of("conversion"),
      path("to-hf", at(&ConvertOptions::to_hf), "FOLDER",
           "the checkpoint of --load becomes a Hugging Face model there")
          .one_of("conversion"),
      path("to-trtllm", at(&ConvertOptions::to_trtllm), "FOLDER",
           "the checkpoint of --load becomes one of TensorRT-LLM there")
          .one_of("conversion"),
      integer("tp", at(&ConvertOptions::ranks), {1, kMaxStartedRanks},
              "tensor-parallel ranks that TensorRT-LLM will run the model on")
          .only_if([](const Settings& s) { return !s.convert.to_trtllm.empty(); }, "--to-trtllm"),
      shard_size_flag(),
  };
}

std::vector<Flag> inspect_flags() {
  std::vector<Flag> flags = {
      toggle("tensors", at(&InspectOptions::tensors),
             "list the tensors of the checkpoint: shape, type, and where their slices lie"),
      toggle("verify", at(&InspectOptions::verify),
             "compare all files of the checkpoint with their checksums; exit code 1 for damage"),
      path("diff", at(&InspectOptions::diff), "FOLDER",
           "compare it with this other one, value by value; exit code 1 for a difference"),
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

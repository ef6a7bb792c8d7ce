#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "tessera/config/rules/rules.h"
#include "tessera/config/value.h"
#include "tessera/options/limits.h"

namespace tessera::config {
namespace {

// The model of generate and evaluate comes from one place.
void source_rules(const TrainOptions& train, Problems& problems) {
  problems.require(train.load.empty() != train.load_hf.empty(),
                   "give the model by one of --load FOLDER (a checkpoint) and --load-hf FOLDER");
}

// A non-negative number; false for anything else.
bool read_part(std::string_view text, double& part) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, part);
  return error == std::errc() && stop == end && std::isfinite(part) && part >= 0;
}

// A model that is used is there once.
void layout_rules(const Options& options, const Ranks& ranks, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  for (const int size : {p.tensor, p.pipeline})
    if (size < 1 || size > kMaxRanks) return;  // named already
  rank_rules(p, ranks, problems);
  start_rules(p, ranks, problems);
  split_model_rules(options, problems);
  pipeline_rules(options, problems);
  problems.require(p.data == 1,
                   "{} ranks hold this model {} times, but it is used by one at a time: start {}, "
                   "or raise --tensor-model-parallel-size or --pipeline-model-parallel-size",
                   ranks.count, p.data, ranks.count / std::max(1, p.data));
}

}  // namespace

void sft_rules(const DataOptions& data, Problems& problems) {
  if (!data.sft) return;
  problems.require(!data.mock_data,
                   "--mock-data has no conversations for --sft: give --data-path, or disable --sft "
                   "(--sft=false)");
  problems.require(!data.fim.enabled,
                   "--fim-data rearranges texts, not the conversations of --sft: drop one of them");
  problems.require(!data.eod_mask_loss && !data.reset_position_ids && !data.reset_attention_mask,
                   "--sft already defines the loss mask, positions and attention: drop "
                   "--eod-mask-loss, --reset-position-ids and --reset-attention-mask");
}

void split_rules(const DataOptions& data, Problems& problems) {
  std::string_view rest = data.split;
  int parts = 0;
  bool ok = true;
  double sum = 0;
  while (ok) {
    const std::size_t comma = rest.find(',');
    double part = 0;
    ok = read_part(rest.substr(0, comma), part);
    sum += part;
    ++parts;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  problems.require(ok && parts <= 3 && sum > 0 && std::isfinite(sum),
                   "--split {}: expected up to three numbers of at least 0, not all 0, such as "
                   "969,30,1",
                   quote(data.split));
}

void fim_rules(const DataOptions& data, Problems& problems) {
  problems.require(
      !data.fim.enabled || !data.mock_data,
      "--fim-data rearranges text, and --mock-data has none: give --data-path, or leave "
      "documents as they are (--fim-data=false)");
}

void generate_rules(const Settings& settings, const Ranks& ranks, Problems& problems) {
  source_rules(settings.options.train, problems);
  device_rules(settings.options, problems);
  layout_rules(settings.options, ranks, problems);
}

void evaluate_rules(const Settings& settings, const Ranks& ranks, Problems& problems) {
  const Options& options = settings.options;
  source_rules(options.train, problems);
  device_rules(options, problems);
  layout_rules(options, ranks, problems);
  split_rules(options.data, problems);
  fim_rules(options.data, problems);
  sft_rules(options.data, problems);
  const DataOptions& data = options.data;
  const bool has_data = data.mock_data || !data.data_path.empty() || !data.data_args_path.empty() ||
                        !data.valid_data_path.empty() || !data.per_split_data_args_path.empty();
  problems.require(has_data || !settings.evaluate.tokens.empty(),
                   "nothing to evaluate: give --data-path PREFIX, --tokens FILE or --mock-data");
  problems.require(!has_data || options.train.eval_iters > 0,
                   "--eval-iters 0 evaluates nothing: give the number of batches");
}

void convert_rules(const Settings& settings, Problems& problems) {
  const ConvertOptions& convert = settings.convert;
  const TrainOptions& train = settings.options.train;
  const bool comes = !convert.from_hf.empty();
  const bool leaves = !convert.to_hf.empty() || !convert.to_trtllm.empty();
  problems.require(comes || leaves,
                   "nothing to convert: give one of --from-hf FOLDER, --to-hf FOLDER and "
                   "--to-trtllm FOLDER");
  problems.require(!comes || (!train.save.empty() && train.load.empty()),
                   "--from-hf needs --save FOLDER, where the checkpoint goes, and no --load");
  problems.require(!leaves || (!train.load.empty() && train.save.empty()),
                   "--{} needs --load FOLDER, where the checkpoint is, and no --save",
                   convert.to_hf.empty() ? "to-trtllm" : "to-hf");
}

void text_rules(const TokenizerOptions& tokenizer, Problems& problems) {
  tokenizer_rules(tokenizer, problems);
  problems.require(
      tokenizer.vocab_size == 0 || tokenizer.kind == TokenizerKind::null ||
          tokenizer.kind == TokenizerKind::tiktoken,
      "--vocab-size has no effect here, since the tokenizer defines its tokens: drop it, "
      "or give it to train");
}

void preprocess_rules(const Settings& settings, Problems& problems) {
  text_rules(settings.options.data.tokenizer, problems);
  problems.require(settings.preprocess.chat_template.empty() ||
                       settings.options.data.tokenizer.kind != TokenizerKind::null,
                   "--chat-template needs a tokenizer of texts, not NullTokenizer");
  std::set<std::string_view> keys;
  for (const std::string& key : settings.preprocess.json_keys)
    problems.require(keys.insert(key).second, "--json-keys has {} twice", quote(key));
}

}  // namespace tessera::config

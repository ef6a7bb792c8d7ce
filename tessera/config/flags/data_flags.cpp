// Data, and the flags of generate and evaluate.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kReading = {Command::train, Command::evaluate};

bool uses_split(const Settings& s) {
  const DataOptions& data = s.options.data;
  return !data.mock_data && data.train_data_path.empty() && data.valid_data_path.empty() &&
         data.test_data_path.empty() && data.per_split_data_args_path.empty();
}

bool has_validation_paths(const Settings& s) {
  const DataOptions& data = s.options.data;
  return !data.valid_data_path.empty() || !data.per_split_data_args_path.empty();
}

bool shuffles_epochs(const Settings& s) {
  return s.options.data.dataloader == SampleOrderKind::cyclic;
}

bool fills_in_the_middle(const Settings& s) { return s.options.data.fim.enabled; }

bool has_fragments(const Settings& s) {
  return fills_in_the_middle(s) && !s.options.data.fim.split_sample.empty();
}

bool draws_tokens(const Settings& s) { return !s.generate.greedy; }

// Each word is a weight or a prefix (data/datasets/blend.h).
std::vector<Flag> data_path_flags() {
  const auto words = [](std::string_view name, auto access, std::string_view help) {
    return texts(name, access, "[WEIGHT] PREFIX", kMaxPathBytes, help);
  };
  return {
      words("data-path", at(&DataOptions::data_path),
            "data sets: PREFIX.bin and PREFIX.idx as written by preprocess or Megatron; several "
            "are blended by weight, or by size without weights")
          .one_of("data source"),
      path("data-args-path", at(&DataOptions::data_args_path), "FILE",
           "file with the arguments of --data-path")
          .one_of("data source"),
      words("train-data-path", at(&DataOptions::train_data_path),
            "training data, instead of --data-path")
          .only_for({Command::train}),
      words("valid-data-path", at(&DataOptions::valid_data_path), "validation data")
          .only_for({Command::train}),
      words("test-data-path", at(&DataOptions::test_data_path), "test data")
          .only_for({Command::train}),
      path("per-split-data-args-path", at(&DataOptions::per_split_data_args_path), "FILE",
           "JSON file with the arguments of these three: {\"train\": [...], \"valid\": [...], ...}")
          .only_for({Command::train})
          .one_of("data source"),
  };
}

std::vector<Flag> reading_flags() {
  return {
      word("dataloader-type", at(&DataOptions::dataloader),
           {{SampleOrderKind::single, "single"}, {SampleOrderKind::cyclic, "cyclic"}},
           "order of samples: one pass (single), or repeated passes that are reshuffled each time "
           "(cyclic)"),
      action(
          "no-data-sharding", [](Settings& s, bool on) { s.options.data.data_sharding = !on; },
          [](const Settings& s) { return !s.options.data.data_sharding; },
          "shuffle all samples together instead of each data-parallel rank's part separately")
          .only_if(shuffles_epochs, "--dataloader-type cyclic"),
      integer("num-workers", at(&DataOptions::num_workers), {0, kMaxWorkers},
              "data loading threads per rank; 0 means none"),
  };
}

std::vector<Flag> validation_flags() {
  return {
      toggle("multiple-validation-sets", at(&DataOptions::multiple_validation_sets),
             "evaluate each prefix of --valid-data-path separately")
          .only_if(has_validation_paths, "--valid-data-path or --per-split-data-args-path"),
      toggle("full-validation", at(&DataOptions::full_validation),
             "evaluate on all of the validation data, each sample once, instead of --eval-iters "
             "batches")
          .only_if([](const Settings& s) { return s.options.train.eval_iters > 0; },
                   "--eval-iters above 0"),
  };
}

std::vector<Flag> data_flags() {
  return {
      toggle("mock-data", at(&DataOptions::mock_data), "use synthetic tokens instead of a data set")
          .one_of("data source"),
      text("split", at(&DataOptions::split), "A,B,C", 256,
           "proportions of the data for training, validation and test")
          .only_if(uses_split, "--data-path (mock data is split 1,1,1)"),
      integer("seq-length", at(&DataOptions::seq_length), {1, kMaxSequence}, "tokens per sample")
          .only_for({Command::train, Command::evaluate, Command::inspect}),
      path("data-cache-path", at(&DataOptions::data_cache_path), "FOLDER",
           "folder to cache sample indices in [default: built in memory for each run]")
          .only_if([](const Settings& s) { return !s.options.data.sft; },
                   "data without --sft: conversations are packed anew when a run starts"),
      toggle("eod-mask-loss", at(&DataOptions::eod_mask_loss),
             "mask the loss where the input token is end-of-document"),
      toggle("reset-position-ids", at(&DataOptions::reset_position_ids),
             "restart positions after each end-of-document"),
      toggle("reset-attention-mask", at(&DataOptions::reset_attention_mask),
             "restrict attention to the token's own document"),
      toggle("sft", at(&DataOptions::sft),
             "supervised fine-tuning: the data holds conversations made by preprocess "
             "--chat-template, packed into samples without attention between them; only assistant "
             "tokens count in the loss"),
  };
}

std::vector<Flag> fim_token_flags() {
  const auto token = [](std::string_view name, auto access, std::string_view help) {
    return text(name, access, "TOKEN", 256, help).only_if(fills_in_the_middle, "--fim-data");
  };
  return {
      token("fim-prefix-token", at(&FimOptions::prefix_token), "before the prefix"),
      token("fim-middle-token", at(&FimOptions::middle_token), "before the middle"),
      token("fim-suffix-token", at(&FimOptions::suffix_token), "before the suffix"),
      token("fim-pad-token", at(&FimOptions::pad_token),
            "pads samples that have become shorter; not counted in the loss"),
      token("fim-eod-token", at(&FimOptions::eod_token),
            "additional end-of-document token [default: only the tokenizer's]"),
      token("fim-split-sample", at(&FimOptions::split_sample),
            "rearrange the fragments between these tokens instead of whole documents"),
  };
}

std::vector<Flag> fim_flags() {
  return {
      toggle("fim-data", at(&FimOptions::enabled),
             "fill in the middle: move the middle of some documents to their end"),
      real("fim-rate", at(&FimOptions::rate), {0, 1}, "probability that a document is rearranged")
          .only_if(fills_in_the_middle, "--fim-data"),
      real("fim-spm-rate", at(&FimOptions::spm_rate), {0, 1},
           "probability that its suffix then comes before its prefix")
          .only_if(fills_in_the_middle, "--fim-data"),
      real("fim-fragment-rate", at(&FimOptions::fragment_rate), {0, 1},
           "probability that each fragment of a document is rearranged")
          .only_if(has_fragments, "--fim-split-sample"),
      text("fim-no-prefix", at(&FimOptions::no_prefix), "TEXT", kMaxTextBytes,
           "do not rearrange text that begins with this")
          .only_if(fills_in_the_middle, "--fim-data"),
  };
}

std::vector<Flag> generate_flags() {
  return {
      texts("prompt", at(&GenerateOptions::prompts), "TEXT", kMaxTextBytes,
            "prompt to continue; may be given several times")
          .must_be_given(),
      integer("max-new-tokens", at(&GenerateOptions::max_new_tokens), {1, kMaxSequence},
              "maximum number of tokens to generate per prompt [default: 128, or as many as the "
              "model has positions for]"),
      texts("stop-tokens", at(&GenerateOptions::stop_tokens), "TOKEN", kMaxTextBytes,
            "tokens that stop generation besides end-of-document, such as '<|im_end|>'"),
      toggle("greedy", at(&GenerateOptions::greedy), "always take the most likely token"),
      real("temperature", at(&GenerateOptions::temperature), {0, 1000, true},
           "sampling temperature")
          .only_if(draws_tokens, "drawing (without --greedy)"),
      integer("top-k", at(&GenerateOptions::top_k), {0, kMaxVocabulary},
              "sample from the k most likely tokens; 0 means all")
          .only_if(draws_tokens, "drawing (without --greedy)"),
      real("top-p", at(&GenerateOptions::top_p), {0, 1, true},
           "sample from the smallest set of tokens with at least this total probability")
          .only_if(draws_tokens, "drawing (without --greedy)"),
  };
}

std::vector<Flag> evaluate_flags() {
  return {
      path("tokens", at(&EvaluateOptions::tokens), "FILE",
           "evaluate the token lists of this .jsonl file instead of a data set")
          .one_of("data source"),
      path("output", at(&EvaluateOptions::output), "FILE",
           "file for the results [default: standard output]")
          .which_means(Command::train_tokenizer, "the tokenizer.json to write (required)")
          .only_for({Command::evaluate, Command::tokenize, Command::train_tokenizer}),
  };
}

}  // namespace

void append_data_flags(std::vector<Flag>& table) {
  append(table, Group::data, kReading, data_path_flags());
  append(table, Group::data, kReading, data_flags());
  append(table, Group::data, kReading, fim_flags());
  append(table, Group::data, kReading, fim_token_flags());
  append(table, Group::data, {Command::train}, reading_flags());
  append(table, Group::evaluation, {Command::train}, validation_flags());
  append(table, Group::generation, {Command::generate}, generate_flags());
  append(table, Group::evaluation, {Command::evaluate}, evaluate_flags());
}

}  // namespace tessera::config

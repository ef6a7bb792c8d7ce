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
            "data sets: PREFIX.bin and PREFIX.idx, as preprocess or Megatron writes them; several "
            "are mixed, by their weights or else by their sizes")
          .one_of("data source"),
      path("data-args-path", at(&DataOptions::data_args_path), "FILE",
           "file with the words of --data-path")
          .one_of("data source"),
      words("train-data-path", at(&DataOptions::train_data_path),
            "instead of --data-path: what to train on")
          .only_for({Command::train}),
      words("valid-data-path", at(&DataOptions::valid_data_path), "what to validate on")
          .only_for({Command::train}),
      words("test-data-path", at(&DataOptions::test_data_path), "what to test on")
          .only_for({Command::train}),
      path("per-split-data-args-path", at(&DataOptions::per_split_data_args_path), "FILE",
           "JSON file with the words of these three: {\"train\": [...], \"valid\": [...], ...}")
          .only_for({Command::train})
          .one_of("data source"),
  };
}

std::vector<Flag> reading_flags() {
  return {
      word("dataloader-type", at(&DataOptions::dataloader),
           {{SampleOrderKind::single, "single"}, {SampleOrderKind::cyclic, "cyclic"}},
           "samples one after the other, or again and again, shuffled anew each time"),
      action(
          "no-data-sharding", [](Settings& s, bool on) { s.options.data.data_sharding = !on; },
          [](const Settings& s) { return !s.options.data.data_sharding; },
          "shuffle all samples together, not each data-parallel rank's part by itself")
          .only_if(shuffles_epochs, "--dataloader-type cyclic"),
      integer("num-workers", at(&DataOptions::num_workers), {0, kMaxWorkers},
              "threads of each rank that read ahead; 0 means none"),
  };
}

std::vector<Flag> validation_flags() {
  return {
      toggle("multiple-validation-sets", at(&DataOptions::multiple_validation_sets),
             "evaluate each prefix of --valid-data-path by itself")
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
      toggle("mock-data", at(&DataOptions::mock_data), "made-up tokens instead of a data set")
          .one_of("data source"),
      text("split", at(&DataOptions::split), "A,B,C", 256,
           "parts of the data for training, validation and test")
          .only_if(uses_split, "--data-path (mock data is split 1,1,1)"),
      integer("seq-length", at(&DataOptions::seq_length), {1, kMaxSequence}, "tokens of a sample")
          .only_for({Command::train, Command::evaluate, Command::inspect}),
      path("data-cache-path", at(&DataOptions::data_cache_path), "FOLDER",
           "keep sample indices there [default: built anew in memory]")
          .only_if([](const Settings& s) { return !s.options.data.sft; },
                   "data without --sft: conversations are packed anew when a run starts"),
      toggle("eod-mask-loss", at(&DataOptions::eod_mask_loss),
             "no loss where the input token is end-of-document"),
      toggle("reset-position-ids", at(&DataOptions::reset_position_ids),
             "positions start again after each end-of-document"),
      toggle("reset-attention-mask", at(&DataOptions::reset_attention_mask),
             "no token sees those before the last end-of-document"),
      toggle("sft", at(&DataOptions::sft),
             "the data is conversations, made by preprocess --chat-template: several to a sample, "
             "none sees another, and only what the assistant says counts in the loss"),
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
            "fills up samples that have become shorter; counts nothing"),
      token("fim-eod-token", at(&FimOptions::eod_token),
            "documents end there, too [default: only at the tokenizer's end-of-document]"),
      token("fim-split-sample", at(&FimOptions::split_sample),
            "rearrange what is between these tokens, not whole documents"),
  };
}

std::vector<Flag> fim_flags() {
  return {
      toggle("fim-data", at(&FimOptions::enabled),
             "fill in the middle: move the middle of some documents to their end"),
      real("fim-rate", at(&FimOptions::rate), {0, 1}, "how likely a document is rearranged")
          .only_if(fills_in_the_middle, "--fim-data"),
      real("fim-spm-rate", at(&FimOptions::spm_rate), {0, 1},
           "how likely its suffix then comes before its prefix")
          .only_if(fills_in_the_middle, "--fim-data"),
      real("fim-fragment-rate", at(&FimOptions::fragment_rate), {0, 1},
           "how likely each part of a document is rearranged")
          .only_if(has_fragments, "--fim-split-sample"),
      text("fim-no-prefix", at(&FimOptions::no_prefix), "TEXT", kMaxTextBytes,
           "what begins with this text stays as it is")
          .only_if(fills_in_the_middle, "--fim-data"),
  };
}

std::vector<Flag> generate_flags() {
  return {
      texts("prompt", at(&GenerateOptions::prompts), "TEXT", kMaxTextBytes,
            "what to continue; may be given several times")
          .must_be_given(),
      integer("max-new-tokens", at(&GenerateOptions::max_new_tokens), {1, kMaxSequence},
              "most tokens to add to each prompt [default: 128, or what the model has positions "
              "for]"),
      texts("stop-tokens", at(&GenerateOptions::stop_tokens), "TOKEN", kMaxTextBytes,
            "tokens that end a text, as the end of a document does: '<|im_end|>'"),
      toggle("greedy", at(&GenerateOptions::greedy),
             "always the most likely token: nothing is drawn"),
      real("temperature", at(&GenerateOptions::temperature), {0, 1000, true},
           "divides the logits before drawing")
          .only_if(draws_tokens, "drawing (without --greedy)"),
      integer("top-k", at(&GenerateOptions::top_k), {0, kMaxVocabulary},
              "draw from the k most likely tokens; 0 means from all")
          .only_if(draws_tokens, "drawing (without --greedy)"),
      real("top-p", at(&GenerateOptions::top_p), {0, 1, true},
           "draw from the fewest tokens with this probability together")
          .only_if(draws_tokens, "drawing (without --greedy)"),
  };
}

std::vector<Flag> evaluate_flags() {
  return {
      path("tokens", at(&EvaluateOptions::tokens), "FILE",
           "evaluate the token lists of this .jsonl file instead of a data set")
          .one_of("data source"),
      path("output", at(&EvaluateOptions::output), "FILE",
           "where results go [default: standard output]")
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

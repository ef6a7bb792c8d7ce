// Data, tokenizer, and the flags of preprocess, generate and evaluate.
#include "tessera/config/flag_builders.h"
#include "tessera/config/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kReading = {Command::train, Command::evaluate};
constexpr CommandSet kTokenizing = {Command::train, Command::preprocess, Command::generate,
                                    Command::evaluate, Command::inspect};

bool uses_real_data(const Settings& s) { return !s.options.data.mock_data; }

bool draws_tokens(const Settings& s) { return !s.generate.greedy; }

// Megatron takes a list here, so the whole list is read and refused in its own words.
Flag data_path_flag() {
  Flag flag = path("data-path", at(&DataOptions::data_path), "PREFIX",
                   "data set: PREFIX.bin and PREFIX.idx, as preprocess or Megatron writes them")
                  .one_of("data source");
  flag.arity = Arity::many;
  flag.set = [](Settings& s, const Values& values) {
    check_input(values.size() == 1,
                "expected one prefix, got {} values: Megatron's blends (WEIGHT PREFIX ...) are not "
                "supported yet, merge the data sets or choose one",
                values.size());
    s.options.data.data_path = parse_text(values[0], kMaxPathBytes);
  };
  return flag;
}

std::vector<Flag> data_flags() {
  return {
      data_path_flag(),
      toggle("mock-data", at(&DataOptions::mock_data), "made-up tokens instead of a data set")
          .one_of("data source"),
      text("split", at(&DataOptions::split), "A,B,C", 256,
           "parts of the data for training, validation and test")
          .only_if(uses_real_data, "--data-path (mock data is split 1,1,1)"),
      integer("seq-length", at(&DataOptions::seq_length), {1, kMaxSequence}, "tokens of a sample")
          .only_for({Command::train, Command::evaluate, Command::inspect}),
      path("data-cache-path", at(&DataOptions::data_cache_path), "FOLDER",
           "keep sample indices there [default: built anew in memory]"),
      toggle("eod-mask-loss", at(&DataOptions::eod_mask_loss),
             "no loss where the input token is end-of-document"),
      toggle("reset-position-ids", at(&DataOptions::reset_position_ids),
             "positions start again after each end-of-document"),
      toggle("reset-attention-mask", at(&DataOptions::reset_attention_mask),
             "no token sees those before the last end-of-document"),
  };
}

std::vector<Flag> tokenizer_flags() {
  return {
      word("tokenizer-type", at(&DataOptions::tokenizer),
           {{TokenizerKind::bytes, "ByteTokenizer"}, {TokenizerKind::null, "NullTokenizer"}},
           "bytes, or token numbers as text [default: the loaded model's, or ByteTokenizer]"),
      integer("vocab-size", at(&DataOptions::vocab_size), {1, kMaxVocabulary - 1},
              "vocabulary before end-of-document; NullTokenizer needs it [default for "
              "ByteTokenizer: 257, end-of-document included]"),
  };
}

std::vector<Flag> preprocess_flags() {
  return {
      texts("input", at(&PreprocessOptions::inputs), "FILE", kMaxPathBytes,
            "JSON-lines files, one document a line, or .txt files, one document each; may be given "
            "several times")
          .must_be_given(),
      path("output-prefix", at(&PreprocessOptions::output_prefix), "PREFIX",
           "writes PREFIX_<key>_document.bin and .idx")
          .must_be_given(),
      texts("json-keys", at(&PreprocessOptions::json_keys), "KEY", 256,
            "which values of a document are text"),
      toggle("append-eod", at(&PreprocessOptions::append_eod),
             "end-of-document token after each document"),
  };
}

std::vector<Flag> generate_flags() {
  return {
      texts("prompt", at(&GenerateOptions::prompts), "TEXT", kMaxTextBytes,
            "what to continue; may be given several times")
          .must_be_given(),
      integer("max-new-tokens", at(&GenerateOptions::max_new_tokens), {1, kMaxSequence},
              "most tokens to add to each prompt"),
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
           "where results go [default: standard output]"),
  };
}

}  // namespace

void append_data_flags(std::vector<Flag>& table) {
  append(table, Group::data, kReading, data_flags());
  append(table, Group::tokenizer, kTokenizing, tokenizer_flags());
  append(table, Group::preprocessing, {Command::preprocess}, preprocess_flags());
  append(table, Group::generation, {Command::generate}, generate_flags());
  append(table, Group::evaluation, {Command::evaluate}, evaluate_flags());
}

}  // namespace tessera::config

// What a model is: flags of ModelOptions.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kModelCommands = {Command::train, Command::inspect};

bool uses_rope(const Settings& s) {
  return s.options.model.position_embedding == PositionEmbedding::rope;
}

std::function<bool(const Settings&)> scaled_by(std::initializer_list<RopeScaling> kinds) {
  return [kinds = std::vector<RopeScaling>(kinds)](const Settings& s) {
    bool found = false;
    for (const RopeScaling kind : kinds) found |= s.options.model.rope.scaling == kind;
    return found && uses_rope(s);
  };
}

bool has_fewer_groups(const Settings& s) {
  const ModelOptions& model = s.options.model;
  return model.num_query_groups != 0 && model.num_query_groups != model.num_attention_heads;
}

bool has_all_biases(const Settings& s) {
  const ModelOptions& model = s.options.model;
  return model.qkv_bias && model.attention_output_bias && model.mlp_bias;
}

void set_biases(Settings& s, bool disabled) {
  ModelOptions& model = s.options.model;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = !disabled;
}

// A bias that stays although the others go.
Flag kept_bias(std::string_view name, bool ModelOptions::*bias, std::string_view help) {
  return action(
      name, [bias](Settings& s, bool on) { s.options.model.*bias |= on; },
      [bias](const Settings& s) { return s.options.model.*bias && !has_all_biases(s); }, help);
}

Flag window_flag() {
  Flag flag = make_flag("window-size", Arity::one, "L,R",
                        "attention window: L keys to the left of each query; R must be 0 "
                        "[default: all keys]");
  flag.quoted = true;
  flag.set = [](Settings& s, const Values& values) {
    s.options.model.attention_window = parse_window(values.at(0));
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    if (s.options.model.attention_window == 0) return std::nullopt;
    return Values{fmt::format("{},0", s.options.model.attention_window - 1)};
  };
  flag.fault = [](const Settings& s) -> std::string {
    const IntegerRange range{0, kMaxPositions};
    if (range.has(s.options.model.attention_window)) return {};
    return fmt::format("of {} keys: {}", s.options.model.attention_window, range.expected());
  };
  return flag;
}

std::vector<Flag> size_flags() {
  return {
      integer("num-layers", at(&ModelOptions::num_layers), {1, kMaxLayers}, "transformer layers")
          .must_be_given(),
      integer("hidden-size", at(&ModelOptions::hidden_size), {1, kMaxHidden}, "width of the model")
          .must_be_given(),
      integer("ffn-hidden-size", at(&ModelOptions::ffn_hidden_size), {1, kMaxFfn},
              "width inside the MLP [default: 4 x hidden; with --swiglu 8/3 x hidden, rounded down "
              "to 64s]"),
      integer("num-attention-heads", at(&ModelOptions::num_attention_heads), {1, kMaxHeads},
              "query heads")
          .must_be_given(),
      action(
          "group-query-attention",
          [](Settings& s, bool on) { s.options.model.num_query_groups = on ? 1 : 0; },
          has_fewer_groups, "fewer key/value heads than query heads: --num-query-groups of them"),
      integer("num-query-groups", at(&ModelOptions::num_query_groups), {1, kMaxHeads},
              "key/value heads, with --group-query-attention [default: 1]")
          .shown_if(has_fewer_groups),
      integer("kv-channels", at(&ModelOptions::kv_channels), {1, kMaxHeadSize},
              "size of a head [default: hidden / heads]"),
      integer("max-position-embeddings", at(&ModelOptions::max_position_embeddings),
              {1, kMaxPositions}, "longest sequence the model is made for [default: --seq-length]"),
      integer("padded-vocab-size", at(&ModelOptions::vocab_size), {1, kMaxVocabulary},
              "rows of the embedding [default: the tokenizer's vocabulary, never padded]"),
  };
}

std::vector<Flag> position_flags() {
  return {
      word("position-embedding-type", at(&ModelOptions::position_embedding),
           {{PositionEmbedding::learned_absolute, "learned_absolute"},
            {PositionEmbedding::rope, "rope"},
            {PositionEmbedding::none, "none"}},
           "how the model encodes positions"),
      real("rotary-base", at(&RopeOptions::base), {1, 1e12, true}, "RoPE's base (theta)")
          .only_if(uses_rope, "--position-embedding-type rope"),
      real("rotary-percent", at(&RopeOptions::percent), {0, 1, true},
           "leading part of each head that RoPE rotates")
          .only_if(uses_rope, "--position-embedding-type rope"),
      word("rope-scaling-type", at(&RopeOptions::scaling),
           {{RopeScaling::none, "none"},
            {RopeScaling::linear, "linear"},
            {RopeScaling::llama3, "llama3"},
            {RopeScaling::yarn, "yarn"}},
           "how RoPE reaches longer sequences than the model was first trained for")
          .one_of("rope scaling")
          .only_if(uses_rope, "--position-embedding-type rope"),
      action(
          "use-rope-scaling",
          [](Settings& s, bool on) {
            if (on) s.options.model.rope.scaling = RopeScaling::llama3;
          },
          scaled_by({RopeScaling::llama3}), "the same as --rope-scaling-type llama3")
          .one_of("rope scaling")
          .only_if(uses_rope, "--position-embedding-type rope")
          .never_shown(),
  };
}

std::vector<Flag> rope_scaling_flags() {
  constexpr RealRange kFactor = {1, 1e6};
  constexpr RealRange kPositive = {0, 1e6, true};
  const auto any = scaled_by({RopeScaling::linear, RopeScaling::llama3, RopeScaling::yarn});
  const auto llama3 = scaled_by({RopeScaling::llama3});
  const auto yarn = scaled_by({RopeScaling::yarn});
  const auto long_context = scaled_by({RopeScaling::llama3, RopeScaling::yarn});
  return {
      real("rope-scaling-factor", at(&RopeOptions::factor), kFactor, "how many times longer")
          .only_if(any, "RoPE scaling (--rope-scaling-type linear, llama3 or yarn)"),
      real("rope-low-freq-factor", at(&RopeOptions::low_freq_factor), kPositive,
           "llama3: wavelengths above original length / this are scaled")
          .only_if(llama3, "--rope-scaling-type llama3"),
      real("rope-high-freq-factor", at(&RopeOptions::high_freq_factor), kPositive,
           "llama3: wavelengths below original length / this are kept")
          .only_if(llama3, "--rope-scaling-type llama3"),
      integer("rope-original-max-position", at(&RopeOptions::original_max_position),
              {1, kMaxPositions}, "llama3, yarn: the length the model was first trained for")
          .only_if(long_context, "--rope-scaling-type llama3 or yarn"),
      real("rope-beta-fast", at(&RopeOptions::beta_fast), kPositive,
           "yarn: dimensions with more turns than this are kept")
          .only_if(yarn, "--rope-scaling-type yarn"),
      real("rope-beta-slow", at(&RopeOptions::beta_slow), kPositive,
           "yarn: dimensions with fewer turns than this are scaled")
          .only_if(yarn, "--rope-scaling-type yarn"),
      real("rope-attention-factor", at(&RopeOptions::attention_factor), kPositive,
           "yarn: factor on queries and keys [default: 0.1 ln(scaling factor) + 1]")
          .only_if(yarn, "--rope-scaling-type yarn"),
  };
}

std::vector<Flag> layer_flags() {
  return {
      word("normalization", at(&ModelOptions::normalization),
           {{Normalization::layer_norm, "LayerNorm"}, {Normalization::rms_norm, "RMSNorm"}},
           "kind of norm"),
      real("norm-epsilon", at(&ModelOptions::norm_epsilon), {0, 1, true}, "added to the variance"),
      action(
          "swiglu",
          [](Settings& s, bool on) {
            s.options.model.activation = on ? Activation::silu : Activation::gelu;
            s.options.model.gated_mlp = on;
          },
          [](const Settings& s) {
            return s.options.model.gated_mlp && s.options.model.activation == Activation::silu;
          },
          "gated MLP with SiLU instead of GELU"),
      action(
          "disable-bias-linear", set_biases, [](const Settings& s) { return !has_all_biases(s); },
          "no biases in linear layers"),
      kept_bias("add-qkv-bias", &ModelOptions::qkv_bias,
                "biases of queries, keys and values although --disable-bias-linear"),
      kept_bias("add-attention-output-bias", &ModelOptions::attention_output_bias,
                "bias of the attention's output although --disable-bias-linear"),
      kept_bias("add-mlp-bias", &ModelOptions::mlp_bias,
                "biases of the MLP although --disable-bias-linear"),
      action(
          "qk-layernorm",
          [](Settings& s, bool on) {
            s.options.model.qk_norm = on ? QkNorm::per_head : QkNorm::none;
          },
          [](const Settings& s) { return s.options.model.qk_norm == QkNorm::per_head; },
          "RMSNorm of each query and key head before RoPE"),
      action(
          "untie-embeddings-and-output-weights",
          [](Settings& s, bool on) { s.options.model.tie_embeddings = !on; },
          [](const Settings& s) { return !s.options.model.tie_embeddings; },
          "an output layer of its own instead of the embedding's weights"),
      window_flag(),
      integer("window-first-layer", at(&ModelOptions::window_first_layer), {0, kMaxLayers},
              "layers before this one (from 0) see all keys")
          .only_if([](const Settings& s) { return s.options.model.attention_window != 0; },
                   "--window-size"),
  };
}

std::vector<Flag> initialization_flags() {
  constexpr RealRange kProbability = {0, 1, false, true};
  return {
      real("attention-dropout", at(&ModelOptions::attention_dropout), kProbability,
           "dropout of attention weights"),
      real("hidden-dropout", at(&ModelOptions::hidden_dropout), kProbability,
           "dropout of embeddings and of each branch before it joins the residual"),
      real("label-smoothing", at(&ModelOptions::label_smoothing), kProbability,
           "part of each token's target that is spread evenly over the vocabulary, in training"),
      real("init-method-std", at(&ModelOptions::init_std), {0, 10, true},
           "standard deviation of initial weights"),
  };
}

}  // namespace

void append_model_flags(std::vector<Flag>& table) {
  append(table, Group::model, kModelCommands, size_flags());
  append(table, Group::model, kModelCommands, position_flags());
  append(table, Group::model, kModelCommands, rope_scaling_flags());
  append(table, Group::model, kModelCommands, layer_flags());
  append(table, Group::initialization, {Command::train}, initialization_flags());
}

}  // namespace tessera::config

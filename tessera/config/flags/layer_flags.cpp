// What the layers of a model are: flags of ModelOptions for norms, MLP, biases, attention and
// scales.
#include <algorithm>

#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr std::string_view kGated = "gated_";
constexpr RealRange kModelScale = {0, 1e6, true};

bool is_windowed(const Settings& s) { return s.options.model.attention_window != 0; }

std::string activation_words(std::string_view separator) {
  std::string words;
  for (const std::string_view prefix : {std::string_view(), kGated})
    for (const Activation activation : kActivations)
      words += fmt::format("{}{}{}", words.empty() ? "" : separator, prefix, to_string(activation));
  return words;
}

void set_activation(ModelOptions& model, std::string_view word) {
  const bool gated = word.starts_with(kGated);
  const std::string_view name = word.substr(gated ? kGated.size() : 0);
  const auto known = std::ranges::find_if(
      kActivations, [&](Activation activation) { return to_string(activation) == name; });
  check_input(known != kActivations.end(), "expected one of {}", activation_words(", "));
  model.activation = *known;
  model.gated_mlp = gated;
}

Flag activation_flag() {
  Flag flag = make_flag("activation-function", Arity::one, "{" + activation_words(",") + "}",
                        "activation of the MLP (gelu: its tanh form; gelu_exact: with erf); with "
                        "gated_ in front, activation(gate) x up");
  flag.set = [](Settings& s, const Values& values) {
    set_activation(s.options.model, values.at(0));
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    const ModelOptions& model = s.options.model;
    return Values{fmt::format("{}{}", model.gated_mlp ? kGated : "", to_string(model.activation))};
  };
  return std::move(flag).one_of("activation");
}

// Another name for one value of --activation-function.
Flag activation_shorthand(std::string_view name, std::string_view word, std::string_view help) {
  return action(
             name,
             [word](Settings& s, bool on) {
               if (on) set_activation(s.options.model, word);
             },
             [](const Settings&) { return false; }, help)
      .one_of("activation")
      .never_shown();
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

std::vector<Flag> norm_flags() {
  return {
      word("normalization", at(&ModelOptions::normalization), "kind of norm"),
      real("norm-epsilon", at(&ModelOptions::norm_epsilon), {0, 1, true}, "added to the variance"),
      action(
          "no-norm-bias", [](Settings& s, bool on) { s.options.model.norm_bias = !on; },
          [](const Settings& s) { return !s.options.model.norm_bias; }, "LayerNorm without a bias")
          .only_if(
              [](const Settings& s) {
                return s.options.model.normalization == Normalization::layer_norm;
              },
              "--normalization LayerNorm"),
      toggle("apply-layernorm-1p", at(&ModelOptions::layernorm_1p),
             "norms multiply by 1 + weight, with weights initialised around 0"),
      word("norm-placement", at(&ModelOptions::norm_placement),
           "whether the inputs of attention and MLP are normalised, their outputs, or both"),
      word("parallel-block", at(&ModelOptions::parallel_block),
           "run attention and MLP in parallel on the layer's input, with one shared norm or one "
           "norm each; none runs them in sequence"),
      word("qk-norm-type", at(&ModelOptions::qk_norm),
           "RMSNorm of queries and keys before RoPE: of each head, of all heads together, or (l2) "
           "of "
           "each head without weights, in layers with RoPE")
          .one_of("qk norm"),
      action(
          "qk-layernorm",
          [](Settings& s, bool on) {
            if (on) s.options.model.qk_norm = QkNorm::per_head;
          },
          [](const Settings&) { return false; }, "the same as --qk-norm-type per_head")
          .one_of("qk norm")
          .never_shown(),
      action(
          "qk-l2-norm",
          [](Settings& s, bool on) {
            if (on) s.options.model.qk_norm = QkNorm::l2;
          },
          [](const Settings&) { return false; }, "the same as --qk-norm-type l2")
          .one_of("qk norm")
          .never_shown(),
  };
}

std::vector<Flag> mlp_flags() {
  return {
      activation_flag(),
      activation_shorthand("swiglu", "gated_silu", "the same as --activation-function gated_silu"),
      activation_shorthand("geglu", "gated_gelu", "the same as --activation-function gated_gelu"),
      activation_shorthand("quick-geglu", "gated_quick_gelu",
                           "the same as --activation-function gated_quick_gelu"),
      activation_shorthand("squared-relu", "squared_relu",
                           "the same as --activation-function squared_relu"),
  };
}

bool is_gated(const Settings& s) { return s.options.model.gated_mlp; }

std::vector<Flag> gate_flags() {
  constexpr std::string_view kGate = "an --activation-function with gated_";
  return {
      real("activation-func-clamp-value", at(&ModelOptions::activation_clamp), kModelScale,
           "a gated MLP takes up to X of its gate, and up within -X and X [default: no limit]")
          .only_if(is_gated, kGate),
      real("glu-linear-offset", at(&ModelOptions::glu_offset), {-1e6, 1e6},
           "a gated MLP is activation(gate) x (up + X)")
          .only_if(is_gated, kGate),
  };
}

std::vector<Flag> bias_flags() {
  return {
      action(
          "disable-bias-linear", set_biases, [](const Settings& s) { return !has_all_biases(s); },
          "no biases in linear layers"),
      kept_bias("add-qkv-bias", &ModelOptions::qkv_bias,
                "add biases to queries, keys and values despite --disable-bias-linear"),
      kept_bias("add-attention-output-bias", &ModelOptions::attention_output_bias,
                "add a bias to the attention output despite --disable-bias-linear"),
      kept_bias("add-mlp-bias", &ModelOptions::mlp_bias,
                "add biases to the MLP, or to experts and their router, despite "
                "--disable-bias-linear"),
      action(
          "untie-embeddings-and-output-weights",
          [](Settings& s, bool on) { s.options.model.tie_embeddings = !on; },
          [](const Settings& s) { return !s.options.model.tie_embeddings; },
          "use separate weights for the output layer instead of the embedding's"),
  };
}

std::vector<Flag> attention_flags() {
  return {
      window_flag(),
      integer("window-first-layer", at(&ModelOptions::window_first_layer), {0, kMaxLayers},
              "layers before this one (counted from 0) attend to all keys")
          .only_if(is_windowed, "--window-size"),
      integer("window-attn-skip-freq", at(&ModelOptions::window_skip_freq), {2, kMaxLayers},
              "every N-th layer attends to all keys [default: none]")
          .only_if(is_windowed, "--window-size"),
      real("softmax-scale", at(&ModelOptions::softmax_scale), kModelScale,
           "factor on attention scores [default: 1 / sqrt(size of a head)]"),
      real("attention-logit-softcap", at(&ModelOptions::attention_softcap), kModelScale,
           "soft cap of attention scores: s becomes X tanh(s / X) [default: none]"),
  };
}

bool is_latent(const Settings& s) { return s.options.model.multi_latent_attention; }

bool has_whole_heads(const Settings& s) { return !is_latent(s); }
bool has_layers_without_rope(const Settings& s) {
  return has_whole_heads(s) && s.options.model.no_rope_freq > 0;
}

std::vector<Flag> softmax_flags() {
  return {
      word("softmax-type", at(&ModelOptions::softmax_type),
           "what the softmax of attention has besides its keys: nothing; off-by-one: a logit of 0; "
           "learnable: a trained logit for each query head (gpt-oss)")
          .only_if(has_whole_heads, "attention without --multi-latent-attention"),
      integer("attention-chunk-size", at(&ModelOptions::attention_chunk), {1, kMaxPositions},
              "in layers with RoPE a query attends to keys of its chunk of N positions only "
              "[default: none]")
          .only_if(
              [](const Settings& s) {
                return has_whole_heads(s) &&
                       s.options.model.position_embedding == PositionEmbedding::rope;
              },
              "--position-embedding-type rope, without --multi-latent-attention"),
      real("attention-temperature-scale", at(&ModelOptions::temperature_scale), {0, 1e6},
           "in layers without RoPE queries are multiplied by 1 + X ln(1 + floor((position + 1) / "
           "--attention-temperature-floor)) [default: 0, none]")
          .only_if(has_layers_without_rope, "--no-rope-freq, without --multi-latent-attention"),
      integer("attention-temperature-floor", at(&ModelOptions::temperature_floor),
              {1, kMaxPositions}, "positions over which that factor stays the same")
          .only_if(
              [](const Settings& s) {
                return has_layers_without_rope(s) && s.options.model.temperature_scale > 0;
              },
              "--attention-temperature-scale"),
  };
}

bool is_latent_yarn(const Settings& s) {
  return is_latent(s) && s.options.model.rope.scaling == RopeScaling::yarn;
}

bool has_derived_factor(const Settings& s) {
  return is_latent_yarn(s) && s.options.model.rope.attention_factor == 0;
}

std::vector<Flag> latent_attention_flags() {
  constexpr std::string_view kLatent = "--multi-latent-attention";
  constexpr std::string_view kYarn = "--multi-latent-attention with --rope-scaling-type yarn";
  constexpr RealRange kScale = {0, 1e6};
  return {
      toggle("multi-latent-attention", at(&ModelOptions::multi_latent_attention),
             "compute the keys and values of all heads from one latent vector per token "
             "(DeepSeek-V2)"),
      integer("q-lora-rank", at(&ModelOptions::q_lora_rank), {1, kMaxHidden},
              "width of a latent vector for queries [default: computed from the input]")
          .only_if(is_latent, kLatent),
      integer("kv-lora-rank", at(&ModelOptions::kv_lora_rank), {1, kMaxHidden},
              "width of the latent vector of keys and values")
          .only_if(is_latent, kLatent),
      integer("qk-head-dim", at(&ModelOptions::qk_head_dim), {1, kMaxHeadSize},
              "channels of a query or key head without positions")
          .only_if(is_latent, kLatent),
      integer("qk-pos-emb-head-dim", at(&ModelOptions::qk_pos_emb_head_dim), {2, kMaxHeadSize},
              "further channels that RoPE rotates; all key heads share them")
          .only_if(is_latent, kLatent),
      integer("v-head-dim", at(&ModelOptions::v_head_dim), {1, kMaxHeadSize},
              "size of a value head")
          .only_if(is_latent, kLatent),
      real("mscale", at(&ModelOptions::mscale), kScale,
           "yarn multiplies the rotated channels by 0.1 X ln(scaling factor) + 1, divided by the "
           "same of --mscale-all-dim")
          .only_if(has_derived_factor,
                   "--multi-latent-attention with --rope-scaling-type yarn, without "
                   "--rope-attention-factor"),
      real("mscale-all-dim", at(&ModelOptions::mscale_all_dim), kScale,
           "yarn multiplies attention scores by the square of 0.1 X ln(scaling factor) + 1")
          .only_if(is_latent_yarn, kYarn),
  };
}

std::vector<Flag> scale_flags() {
  return {
      real("output-logit-softcap", at(&ModelOptions::logit_softcap), kModelScale,
           "soft cap of logits: z becomes X tanh(z / X) [default: none]"),
      real("embedding-scale", at(&ModelOptions::embedding_scale), kModelScale,
           "factor on embeddings"),
      real("residual-scale", at(&ModelOptions::residual_scale), kModelScale,
           "factor on the output of attention and MLP before it joins the residual"),
      real("logit-scale", at(&ModelOptions::logit_scale), kModelScale, "factor on logits"),
  };
}

}  // namespace

void append_layer_flags(std::vector<Flag>& table) {
  append(table, Group::model, kModelCommands, norm_flags());
  append(table, Group::model, kModelCommands, mlp_flags());
  append(table, Group::model, kModelCommands, gate_flags());
  append(table, Group::model, kModelCommands, bias_flags());
  append(table, Group::model, kModelCommands, attention_flags());
  append(table, Group::model, kModelCommands, softmax_flags());
  append(table, Group::model, kModelCommands, latent_attention_flags());
  append(table, Group::model, kModelCommands, scale_flags());
}

}  // namespace tessera::config

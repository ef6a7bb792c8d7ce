// Flags of mixtures of experts. Names and defaults are Megatron's, except where the help says so.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"
#include "tessera/config/layer_pattern.h"

namespace tessera::config {
namespace {

constexpr const char* kNeeds = "--num-experts";
constexpr const char* kNeedsGroups = "--moe-router-num-groups";
constexpr RealRange kCoefficient = {0, 1e3};

bool has_experts(const Settings& s) { return s.options.model.num_experts > 0; }
bool has_groups(const Settings& s) {
  return has_experts(s) && s.options.model.moe_router_num_groups > 0;
}
bool has_capacity(const Settings& s) {
  return has_experts(s) && s.options.model.moe_capacity_factor > 0;
}
bool has_shared_expert(const Settings& s) {
  return has_experts(s) && s.options.model.moe_shared_ffn > 0;
}

Flag layer_freq_flag() {
  Flag flag = make_flag("moe-layer-freq", Arity::one, "N|LIST",
                        "the layers that have experts: every N-th from the first one, or a 0 or 1 "
                        "for each layer, such as [0,1,1] or ([0]*1+[1]*26)");
  flag.quoted = true;
  flag.set = [](Settings& s, const Values& values) {
    s.options.model.moe_layer_freq = parse_layer_pattern(values.at(0));
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    return Values{layer_pattern_text(s.options.model.moe_layer_freq)};
  };
  return std::move(flag).only_if(has_experts, kNeeds);
}

std::vector<Flag> expert_size_flags() {
  return {
      integer("num-experts", at(&ModelOptions::num_experts), {1, kMaxExperts},
              "layers are mixtures of N experts: MLPs of which each token uses a few")
          .shown_if(has_experts),
      layer_freq_flag(),
      integer("moe-ffn-hidden-size", at(&ModelOptions::moe_ffn_hidden_size), {1, kMaxFfn},
              "width inside an expert [default: --ffn-hidden-size]")
          .only_if(has_experts, kNeeds),
      integer("moe-shared-expert-intermediate-size", at(&ModelOptions::moe_shared_ffn),
              {1, kMaxFfn},
              "width of a shared expert: an MLP that every token goes through, besides its own "
              "experts [default: none]")
          .only_if(has_experts, kNeeds),
      toggle("moe-shared-expert-gate", at(&ModelOptions::moe_shared_gate),
             "multiply the shared expert's output by the sigmoid of a logit of the token")
          .only_if(has_shared_expert, "--moe-shared-expert-intermediate-size"),
  };
}

// A part of the model, since its values are in checkpoints.
Flag expert_bias_flag() {
  return toggle("moe-router-enable-expert-bias", at(&ModelOptions::moe_expert_bias),
                "balance the experts by a bias per expert, which is added to its score for the "
                "choice only, and moves after every step towards equal use (DeepSeek-V3)")
      .only_if(
          [](const Settings& s) {
            return has_experts(s) && s.options.model.moe_router_score == RouterScore::sigmoid;
          },
          "--num-experts and --moe-router-score-function sigmoid");
}

std::vector<Flag> router_flags() {
  return {
      integer("moe-router-topk", at(&ModelOptions::moe_router_topk), {1, kMaxExperts},
              "experts that each token goes to")
          .only_if(has_experts, kNeeds),
      word("moe-router-score-function", at(&ModelOptions::moe_router_score),
           "how logits become scores of experts; sigmoid scores of several experts are divided by "
           "their sum")
          .only_if(has_experts, kNeeds),
      toggle("moe-router-pre-softmax", at(&ModelOptions::moe_router_pre_softmax),
             "the softmax is over all experts, instead of over the chosen ones")
          .only_if(
              [](const Settings& s) {
                return has_experts(s) && s.options.model.moe_router_score == RouterScore::softmax;
              },
              "--num-experts and --moe-router-score-function softmax"),
      real("moe-router-topk-scaling-factor", at(&ModelOptions::moe_router_scaling_factor),
           {0, 1e6, true}, "factor on the weights of the chosen experts")
          .only_if(has_experts, kNeeds),
      toggle("moe-apply-probs-on-input", at(&ModelOptions::moe_probs_on_input),
             "the weights of the chosen experts multiply what the experts read, not what they give "
             "(Llama 4)")
          .only_if(has_experts, kNeeds),
      integer("moe-router-num-groups", at(&ModelOptions::moe_router_num_groups),
              {1, kMaxRouterGroups},
              "group-limited choice: divides the experts into N groups [default: none]")
          .only_if(has_experts, kNeeds),
      integer("moe-router-group-topk", at(&ModelOptions::moe_router_group_topk),
              {1, kMaxRouterGroups}, "groups that the experts of a token are in")
          .only_if(has_groups, kNeedsGroups),
      integer("moe-router-group-best", at(&ModelOptions::moe_router_group_best), {1, kMaxExperts},
              "experts of a group whose scores, added up, are the group's: 1 in DeepSeek-V2, 2 in "
              "DeepSeek-V3 [default: --moe-router-topk / --moe-router-group-topk, as Megatron]")
          .only_if(has_groups, kNeedsGroups),
      expert_bias_flag(),
  };
}

// The router computes in one type; the flag can only say so.
Flag router_dtype_flag() {
  Flag flag = make_flag("moe-router-dtype", Arity::one, "{fp32,fp64}",
                        "type of the router's logits and scores: fp32, or fp64 in a model in f64; "
                        "others are refused");
  flag.set = [](Settings& s, const Values& values) {
    const std::string& value = values.at(0);
    check_input(value == "fp32" || value == "fp64", "expected fp32 or fp64");
    s.options.train.router_dtype = value == "fp32" ? DType::f32 : DType::f64;
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    const std::optional<DType> dtype = s.options.train.router_dtype;
    if (!dtype) return std::nullopt;
    return Values{*dtype == DType::f32 ? "fp32" : "fp64"};
  };
  return std::move(flag).only_if(has_experts, kNeeds).for_some_models();
}

std::vector<Flag> balance_flags() {
  return {
      real("moe-router-bias-update-rate", at(&ModelOptions::moe_bias_update_rate), {0, 1},
           "by how much a step moves the bias of an expert")
          .only_if(
              [](const Settings& s) { return has_experts(s) && s.options.model.moe_expert_bias; },
              "--moe-router-enable-expert-bias"),
      words("moe-router-load-balancing-type", at(&ModelOptions::moe_balance),
            "losses that balance the experts: over each sequence (the same in every layout; the "
            "default here), each microbatch (Megatron's default), or the global batch by how "
            "often the step before chose each expert")
          .only_if(has_experts, kNeeds),
      reals("moe-aux-loss-coeff", at(&ModelOptions::moe_aux_loss_coeff), kCoefficient,
            "coefficient of these losses: one for all, or one for each [default: 0, none]")
          .only_if(has_experts, kNeeds),
      real("moe-z-loss-coeff", at(&ModelOptions::moe_z_loss), kCoefficient,
           "coefficient of the router's z-loss, which keeps its logits small [default: 0, none]")
          .only_if(has_experts, kNeeds),
      real("moe-input-jitter-eps", at(&ModelOptions::moe_input_jitter), {0, 1},
           "in training the router sees its input times random factors between 1 - X and 1 + X "
           "[default: 0, none]")
          .only_if(has_experts, kNeeds),
      toggle("moe-router-force-load-balancing", at(&ModelOptions::moe_force_balance),
             "send tokens to experts in turn, whatever the router says: for benchmarks")
          .only_if(has_experts, kNeeds),
  };
}

std::vector<Flag> capacity_flags() {
  return {
      real("moe-expert-capacity-factor", at(&ModelOptions::moe_capacity_factor), {0, 1e6},
           "in training an expert takes up to X times the mean number of tokens of each sequence; "
           "more are dropped [default: 0, no limit]")
          .only_if(has_experts, kNeeds),
      word("moe-token-drop-policy", at(&ModelOptions::moe_drop_policy),
           "which tokens such an expert takes: those with the highest weights, or the first ones "
           "of the sequence")
          .only_if(has_capacity, "--moe-expert-capacity-factor"),
      toggle("moe-pad-expert-input-to-capacity", at(&ModelOptions::moe_pad_to_capacity),
             "every expert gets as many rows as its capacity, zeros where it has fewer tokens: no "
             "size depends on the data")
          .only_if(has_capacity, "--moe-expert-capacity-factor"),
  };
}

}  // namespace

void append_expert_flags(std::vector<Flag>& table) {
  append(table, Group::model, kModelCommands, expert_size_flags());
  append(table, Group::model, kModelCommands, router_flags());
  append(table, Group::initialization, kTrain, balance_flags());
  append(table, Group::initialization, kTrain, capacity_flags());
  append(table, Group::precision, kTrain, {router_dtype_flag()});
  append(table, Group::logging, kTrain,
         {toggle("moe-per-layer-logging", at(&TrainOptions::log_experts_by_layer),
                 "log the router's losses and the use of the experts of each layer, too: those of "
                 "the last step")
              .only_if(has_experts, kNeeds)
              .for_some_models()});
}

}  // namespace tessera::config

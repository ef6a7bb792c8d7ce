#include "tessera/config/rules/given_rules.h"

#include "tessera/config/flags/flag_table.h"

namespace tessera::config {
namespace {

// How a model is trained may depend on what it is, which is not known before it is read.
bool waits_for_model(const Flag& flag, const Settings& settings) {
  return flag.group == Group::initialization && !settings.options.train.load_hf.empty();
}

void add_ineffective(const Flag& flag, const std::string& name, const Assignment& assignment,
                     Problems& problems) {
  problems.add("{} has no effect: it belongs to {}", spelled(name, assignment), flag.applies_when);
}

void check_effects(const Given& given, Problems& problems) {
  for (const auto& [name, assignment] : given.all) {
    const Flag& flag = *find_flag(name);
    const bool overridden = given.file.contains(name) && flag.has_effect(given.file_settings);
    if (waits_for_model(flag, given.settings)) continue;
    if (!is_on(flag, assignment) || flag.has_effect(given.settings) || overridden) continue;
    add_ineffective(flag, name, assignment, problems);
  }
}

void check_partners(const Assignments& given, const Options& options, Problems& problems) {
  problems.require(
      !was_given(given, "num-query-groups") || was_given(given, "group-query-attention"),
      "--num-query-groups needs --group-query-attention, without which every head has its own keys "
      "and values: add it, or drop --num-query-groups");
  const bool first_layers = options.recompute.granularity == RecomputeGranularity::full &&
                            options.recompute.method == RecomputeMethod::block;
  problems.require(
      !first_layers || was_given(given, "recompute-num-layers"),
      "--recompute-method block needs --recompute-num-layers, the number of layers to recompute");
  const ParallelOptions& p = options.parallel;
  problems.require(
      p.tensor_2d == 0 || !was_given(given, "tensor-model-parallel-size") ||
          p.tensor == p.tensor_2d * p.tensor_2d,
      "--tensor-model-parallel-grid {0},{0} has {1} ranks, but --tensor-model-parallel-size is "
      "{2}: "
      "drop it, or set it to {1}",
      p.tensor_2d, p.tensor_2d * p.tensor_2d, p.tensor);
}

}  // namespace

void check_given_for_model(const Assignments& given, const Settings& settings, Problems& problems) {
  for (const auto& [name, assignment] : given) {
    const Flag& flag = *find_flag(name);
    if (waits_for_model(flag, settings) && is_on(flag, assignment) && !flag.has_effect(settings))
      add_ineffective(flag, name, assignment, problems);
  }
}

void check_given(const Given& given, Problems& problems) {
  check_effects(given, problems);
  check_partners(given.all, given.settings.options, problems);
}

}  // namespace tessera::config

#include "tessera/config/rules/given_rules.h"

#include <algorithm>

#include "tessera/config/flags/flag_table.h"

namespace tessera::config {
namespace {

// How a model is trained may depend on what it is, which is not known before it is read.
bool waits_for_model(const Flag& flag, const Settings& settings) {
  const TrainOptions& train = settings.options.train;
  const bool reads_model =
      !train.load_hf.empty() || (train.use_checkpoint_args && !train.load.empty());
  return reads_model && (flag.group == Group::initialization || flag.depends_on_model);
}

std::string describe(const Flag& flag, const Assignment& assignment) {
  return fmt::format("{} has no effect: it belongs to {}", spelled(flag.name, assignment),
                     flag.applies_when);
}

bool lacks_partner(const Flag& flag, const Assignments& given) {
  return !flag.partner.empty() && !was_given(given, flag.partner);
}

bool has_no_effect(const Flag& flag, const Assignment& assignment, const Given& given) {
  if (!is_on(flag, assignment) || waits_for_model(flag, given.settings)) return false;
  // The command line may take the effect from what the file says.
  const bool overridden = given.file.contains(flag.name) && flag.has_effect(given.file_settings) &&
                          !lacks_partner(flag, given.file);
  return !overridden && (!flag.has_effect(given.settings) || lacks_partner(flag, given.all));
}

}  // namespace

bool drop_ineffective(const Given& given, Problems& problems, Notes& notes) {
  std::vector<std::string> dropped;
  for (const auto& [name, assignment] : given.all) {
    const Flag& flag = *find_flag(name);
    if (!has_no_effect(flag, assignment, given)) continue;
    if (given.command == Command::train)
      notes.warnings.push_back(describe(flag, assignment));
    else
      problems.add("{}", describe(flag, assignment));
    dropped.push_back(name);
  }
  for (const std::string& name : dropped) given.all.erase(name);
  return !dropped.empty();
}

void add_remarks(const Assignments& given, Notes& notes) {
  for (const auto& [name, assignment] : given) {
    const Flag& flag = *find_flag(name);
    const std::string remark = flag.remark ? flag.remark(assignment.values) : std::string();
    if (!remark.empty()) notes.warnings.push_back(remark);
  }
}

void check_partners(const Assignments& given, const Options& options, Problems& problems) {
  problems.require(!was_given(given, "no-position-embedding") ||
                       options.model.position_embedding == PositionEmbedding::rope,
                   "--no-position-embedding is for models with --position-embedding-type rope, "
                   "which have no table of positions: use --position-embedding-type none");
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

bool names_tokenizer(const Assignments& given) {
  return std::ranges::any_of(
      given, [](const auto& each) { return find_flag(each.first)->group == Group::tokenizer; });
}

void warn_for_model(const Assignments& given, const Settings& settings, Notes& notes) {
  for (const auto& [name, assignment] : given) {
    const Flag& flag = *find_flag(name);
    if (waits_for_model(flag, settings) && is_on(flag, assignment) && !flag.has_effect(settings))
      notes.warnings.push_back(describe(flag, assignment));
  }
}

}  // namespace tessera::config

#include <fmt/core.h>

#include <algorithm>

#include "apps/commands.h"
#include "tessera/base/check.h"
#include "tessera/config/print.h"
#include "tessera/config/rules/mesh_check.h"
#include "tessera/engine/session_options.h"
#include "tessera/parallel/mesh_picture.h"
#include "tessera/run/model_source.h"
#include "tessera/verify/reference_model.h"
#include "tessera/verify/verify.h"

namespace tessera {
namespace {

constexpr const char* kHelp =
    "usage: tessera verify [the flags of a training]\n\n"
    "Trains a scaled-down reference model of the configuration for a few steps in its layout and "
    "on\n"
    "one rank, in float64 on the CPU, and compares losses, every gradient and every weight. Takes\n"
    "the flags of `tessera train`; needs neither its data nor its ranks, and no learning rate and\n"
    "length. Exit code 1 when something differs.\n";

// What a training needs and its reference model has of its own: rate, length and data. What is
// given is still checked by the rules of train, so these fit whatever it says.
void fill_in(ParsedCommand& parsed) {
  Options& options = parsed.options;
  if (!parsed.was_given("lr"))
    options.schedule.lr =
        std::max({1e-3, options.schedule.min_lr, options.schedule.lr_warmup_init});
  if (!parsed.was_given("train-iters") && !parsed.was_given("train-samples"))
    options.train.train_iters = 1'000'000;
  if (!options.data.names_files()) options.data.mock_data = true;
}

}  // namespace

int verify_command(const std::vector<std::string>& args) {
  ParsedCommand parsed = parse_command("train", args);
  if (parsed.help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  if (!parsed.was_given("nproc")) parsed.options.parallel.nproc = fewest_ranks(parsed.options);
  fill_in(parsed);
  parsed.options.train.threads = 0;                 // one per rank, on whatever machine this is
  parsed.options.train.device = DeviceChoice::cpu;  // where it is proved, whatever it will run on
  const ModelSource source(parsed);
  check_input(
      parsed.options.parallel.nproc > 1,
      "verify compares a layout with one rank, and this layout is one rank: give its sizes, "
      "such as --tensor-model-parallel-size 2, or --nproc");
  check_parameters(session_options(parsed.options, true));
  const ReferenceModel reference = make_reference_model(parsed.options);
  fmt::print("a scaled-down reference model of this training in f64, {}\n",
             mesh_banner(reference.session.parallel, reference.session.parallel.nproc,
                         schedule_title(reference.session.pipeline)));
  for (const std::string& change : reference.changes) fmt::print("  {}\n", change);
  const VerifyResult result = verify_layout(reference.session);
  for (const std::string& line : result.log) fmt::print("{}\n", line);
  if (result.same)
    fmt::print("same: the layout computes what one rank does\n");
  else
    fmt::print("DIFFERENT: {}\n", result.where);
  return result.same ? 0 : 1;
}

}  // namespace tessera

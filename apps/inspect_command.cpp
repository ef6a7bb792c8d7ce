#include <fmt/core.h>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "tessera/config/mesh_check.h"
#include "tessera/config/print.h"
#include "tessera/parallel/mesh_picture.h"
#include "tessera/train/inspect.h"
#include "tessera/train/schedule_text.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

std::string verdict(const MeshCheck& mesh, bool has_model) {
  std::string text;
  if (mesh.refusals.empty())
    text = fmt::format("tessera train takes this layout, with --nproc {0} or mpirun -n {0}{1}\n",
                       mesh.ranks, has_model ? "" : " (given a model that can be split so)");
  else
    text = "tessera train refuses this layout:\n";
  for (const std::string& refusal : mesh.refusals) text += fmt::format("  - {}\n", refusal);
  return text;
}

// Draws the ranks of a training, one that train cannot run yet too.
void draw_mesh(ParsedCommand& parsed) {
  Options& options = parsed.options;
  if (!options.train.load_hf.empty())
    options.model = HfFolder(options.train.load_hf).model().options;
  const MeshCheck mesh = check_mesh(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(options));
  fmt::print("{}\n{}", mesh_picture(options.parallel, mesh.ranks),
             verdict(mesh, options.model.hidden_size > 0));
}

void draw_schedule(ParsedCommand& parsed) {
  if (!parsed.options.train.load_hf.empty())
    parsed.options.model = HfFolder(parsed.options.train.load_hf).model().options;
  check_schedule(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed.options));
  const SessionOptions options = session_options(parsed.options, true);
  const ScheduleText drawn =
      parsed.trace.empty() ? planned_schedule(options) : recorded_schedule(options, parsed.trace);
  if (!parsed.schedule_file.empty()) write_file_atomically(parsed.schedule_file, drawn.svg);
  fmt::print("{}", drawn.text);
  if (!parsed.schedule_file.empty()) fmt::print("wrote '{}'\n", parsed.schedule_file);
}

}  // namespace

void inspect_command(ParsedCommand& parsed) {
  if (parsed.mesh) return draw_mesh(parsed);
  if (parsed.schedule) return draw_schedule(parsed);
  const ModelSource source(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const SessionOptions options = session_options(parsed.options, true);
  check_parameters(options);
  fmt::print("{}", inspect_text(options, only_rank(parsed.options.train).threads));
}

}  // namespace tessera

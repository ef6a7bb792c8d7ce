#include <fmt/core.h>

#include "apps/checkpoint_view.h"
#include "apps/commands.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/mesh_check.h"
#include "tessera/config/rules/rules.h"
#include "tessera/config/rules/validate.h"
#include "tessera/engine/session_options.h"
#include "tessera/observe/inspect.h"
#include "tessera/observe/schedule_text.h"
#include "tessera/parallel/mesh_picture.h"
#include "tessera/run/model_source.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {
namespace {

// Why train would not run it; empty if it would.
std::string refusals(const MeshCheck& mesh) {
  if (mesh.refusals.empty()) return "";
  std::string text = "tessera train refuses this layout:\n";
  for (const std::string& refusal : mesh.refusals) text += fmt::format("  - {}\n", refusal);
  return text;
}

std::string verdict(const MeshCheck& mesh, bool has_model) {
  if (!mesh.refusals.empty()) return refusals(mesh);
  return fmt::format("tessera train takes this layout, with --nproc {0} or mpirun -n {0}{1}\n",
                     mesh.ranks, has_model ? "" : " (given a model that can be split so)");
}

// What a drawing takes of the model and the tokenizer: as a training would.
void read_sources(Options& options) {
  if (!options.train.load_hf.empty())
    options.model = HfFolder(options.train.load_hf).model().options;
  if (!options.data.tokenizer.reads_files()) return;
  config::Problems problems;
  config::tokenizer_rules(options.data.tokenizer, problems);
  problems.throw_if_any();
  read_vocabulary(options.data.tokenizer);
}

// Draws the ranks of a training, one that train cannot run yet too.
void draw_mesh(ParsedCommand& parsed) {
  Options& options = parsed.options;
  read_sources(options);
  const MeshCheck mesh = check_mesh(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(options));
  fmt::print("{}\n{}", mesh_picture(options.parallel, mesh.ranks, schedule_title(options.pipeline)),
             verdict(mesh, options.model.hidden_size > 0));
}

void draw_schedule(ParsedCommand& parsed) {
  read_sources(parsed.options);
  const MeshCheck mesh = check_schedule(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed.options));
  const SessionOptions options = session_options(parsed.options, true);
  const ScheduleText drawn =
      parsed.trace.empty() ? planned_schedule(options) : recorded_schedule(options, parsed.trace);
  if (!parsed.schedule_file.empty()) write_file_atomically(parsed.schedule_file, drawn.svg);
  fmt::print("{}{}", drawn.text, refusals(mesh));
  if (!parsed.schedule_file.empty()) fmt::print("wrote '{}'\n", parsed.schedule_file);
}

// Who asks about a checkpoint's files does not ask about its model.
bool checkpoint_alone(const InspectOptions& inspect) {
  return inspect.tensors || inspect.verify || !inspect.diff.empty();
}

int inspect_checkpoint(ParsedCommand& parsed) {
  resolve(parsed.options);
  validate(parsed);
  if (!parsed.print_config) return view_checkpoint(parsed);
  fmt::print("{}", print_config(parsed));
  return 0;
}

// What a model needs to be trained, and of one that comes from a checkpoint where that stands.
void show_model(ParsedCommand& parsed) {
  if (!parsed.was_given("nproc")) parsed.options.parallel.nproc = fewest_ranks(parsed.options);
  const ModelSource source(parsed);
  fill_pipeline(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  if (source.checkpoint()) {
    show_checkpoint(*source.checkpoint(), false);
    fmt::print("\n");
  }
  const SessionOptions options = session_options(parsed.options, true);
  check_parameters(options);
  fmt::print("{}", inspect_text(options, only_rank(parsed.options.train).threads));
}

}  // namespace

int inspect_command(ParsedCommand& parsed) {
  if (parsed.mesh)
    draw_mesh(parsed);
  else if (parsed.schedule)
    draw_schedule(parsed);
  else if (checkpoint_alone(parsed.inspect))
    return inspect_checkpoint(parsed);
  else
    show_model(parsed);
  return 0;
}

}  // namespace tessera

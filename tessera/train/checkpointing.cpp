#include "tessera/train/checkpointing.h"

#include <deque>
#include <functional>

#include "tessera/base/check.h"
#include "tessera/train/whole_buckets.h"
#include "tessera/train/whole_tensors.h"

namespace tessera {
namespace {

// Every tensor of a block laid out like the parameters, with its name behind a prefix, to be
// written.
using TensorVisitor =
    std::function<void(const std::string& name, const ShardedTensor&, const View& part)>;

void write_block(Session& session, const ParameterBlock& block, const std::string& prefix,
                 const TensorVisitor& visit) {
  const ParameterBuffers& buffers = session.parameters();
  write_buckets(session, block, [&](const Bucket& bucket, const View& whole) {
    HostBlock host = downloaded(session.context(), whole);  // the gaps between tensors stay
    for (const std::size_t i : bucket.parameters)
      for (const ShardedTensor& tensor : buffers.parameters()[i]->tensors())
        visit(prefix + tensor.name, tensor, buffers.part(host.view(), i));
    host.upload();
  });
}

void add_block(std::vector<NamedView>& to, const WholeTensors& tensors, const std::string& prefix) {
  for (const auto& [name, view] : tensors.by_name()) to.push_back({prefix + name, view});
}

// Reads a block's tensors. A run that goes on must go on in the
// same type, or it would not repeat itself; `convert` is for models that are only used.
void read_block(const SafetensorsFile& file, Session& session, const ParameterBlock& block,
                const std::string& prefix, bool convert) {
  write_block(session, block, prefix,
              [&](const std::string& name, const ShardedTensor& tensor, const View& part) {
                check_input(file.contains(name), "'{}' has no tensor '{}', which this model needs",
                            file.what(), name);
                check_input(file.shape(name) == tensor.global,
                            "'{}', tensor '{}': this model needs the shape {}, the file has {}",
                            file.what(), name, tensor.global.to_string(),
                            file.shape(name).to_string());
                check_input(convert || file.dtype(name) == part.dtype(),
                            "'{}', tensor '{}': this run computes in {}, the file has {}",
                            file.what(), name, name_of(part.dtype()), name_of(file.dtype(name)));
                for (const ShardPiece& piece : tensor.pieces)
                  file.read_box(name, piece.offset, piece.extent, piece.in(part));
              });
}

// Of the whole model, of which this rank may have a part.
std::size_t tensor_count(const Session& session, bool trained_only) {
  std::size_t count = 0;
  DescribedModel model(session.options());
  for (const Parameter* parameter : model.parameters())
    if (parameter->trained() || !trained_only) count += parameter->tensors().size();
  return count;
}

void check_count(const SafetensorsFile& file, std::size_t expected) {
  check_input(file.names().size() == expected, "'{}' holds {} tensors, this model has {}",
              file.what(), file.names().size(), expected);
}

// Where the optimizer and the loss scale were.
void load_step_state(Session& session, const Checkpoint& checkpoint) {
  const std::string file = (checkpoint.path() / "state.json").string();
  StepState state = session.optimizer().step_state(session.context());
  state.iteration = checkpoint.iteration();
  state.step = checkpoint.counter("optimizer_steps");
  check_input(state.step >= 0 && state.step <= checkpoint.iteration(),
              "'{}': {} optimizer steps at iteration {} cannot be", file, state.step,
              checkpoint.iteration());
  if (session.options().model.dtype == DType::f16 && session.options().optimizer.loss_scale == 0) {
    state.loss_scale = checkpoint.number("loss_scale");
    state.good_steps = checkpoint.counter("good_steps");
    state.overflows_left = checkpoint.counter("overflows_left");
    check_input(state.loss_scale > 0 && state.good_steps >= 0,
                "'{}': a loss scale of {} after {} good steps cannot be", file, state.loss_scale,
                state.good_steps);
  }
  session.optimizer().set_step_state(session.context(), state);
}

}  // namespace

void save_session(const fs::path& folder, Session& session, const Progress& progress,
                  const std::string& config, bool with_optimizer) {
  Context& context = session.context();
  const StepState state = session.optimizer().step_state(context);
  CheckpointContents contents;
  contents.iteration = progress.iteration;
  contents.state = {{"iteration", progress.iteration},
                    {"consumed_samples", progress.consumed_samples},
                    {"schedule_samples", progress.schedule_samples},
                    {"optimizer_steps", state.step},
                    {"loss_scale", state.loss_scale},
                    {"good_steps", state.good_steps},
                    {"overflows_left", state.overflows_left}};
  contents.config = config;
  std::deque<WholeTensors> blocks;  // the views point into them
  add_block(contents.model, blocks.emplace_back(session, session.parameters().values()), "");
  if (with_optimizer)
    for (const Optimizer::State& each : session.optimizer().states())
      add_block(contents.optimizer, blocks.emplace_back(session, each.block), each.name + ".");
  if (context.mesh.world().rank() == 0) save_checkpoint(folder, contents);
  context.mesh.world().patient_barrier();  // nobody goes on with what is not saved
}

void load_weights(Session& session, const Checkpoint& checkpoint) {
  const bool convert = !session.options().training;
  read_block(checkpoint.model(), session, session.parameters().values(), "", convert);
  check_count(checkpoint.model(), tensor_count(session, false));
  session.adopt_values();
}

void load_optimizer(Session& session, const Checkpoint& checkpoint) {
  check_input(checkpoint.optimizer().has_value(),
              "'{}' was saved without optimizer state: continue with --no-load-optim or --finetune",
              checkpoint.path().string());
  for (const Optimizer::State& state : session.optimizer().states())
    read_block(*checkpoint.optimizer(), session, state.block, state.name + ".", false);
  check_count(*checkpoint.optimizer(),
              session.optimizer().states().size() * tensor_count(session, true));
  load_step_state(session, checkpoint);
}

Progress progress_of(const Checkpoint& checkpoint) {
  const Progress progress{checkpoint.counter("iteration"), checkpoint.counter("consumed_samples"),
                          checkpoint.counter("schedule_samples")};
  check_input(progress.iteration == checkpoint.iteration() && progress.consumed_samples >= 0 &&
                  progress.schedule_samples >= 0,
              "'{}' says iteration {} in a folder of iteration {}",
              (checkpoint.path() / "state.json").string(), progress.iteration,
              checkpoint.iteration());
  return progress;
}

}  // namespace tessera

#include "tessera/checkpoint/saving/checkpointing.h"

#include <array>
#include <charconv>
#include <functional>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/base/master_weight.h"
#include "tessera/checkpoint/exact_weights.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/saving/upcycling.h"
#include "tessera/engine/host_block.h"
#include "tessera/optim/kept_slices.h"
#include "tessera/options/limits.h"

namespace tessera {
namespace {

constexpr const char* kWordTable = "embedding.word.weight";

// Calls visit(slice, part) for all slices that this rank keeps of blocks, to fill the parts.
using SliceVisitor = std::function<void(const KeptSlice& slice, const View& part)>;

void fill_slices(Session& session, const std::vector<ParameterBlock>& blocks,
                 const SliceVisitor& visit) {
  session.parameters().wait_for_param_gather();
  for (const ParameterBlock& block : blocks) {
    if (block.memory.numel() == 0) continue;
    HostBlock host = downloaded(session.context(), block.memory);  // the gaps between tensors stay
    ParameterBlock filled = block;
    filled.memory = host.view();
    for (const KeptSlice& slice : kept_slices(session.context().mesh, block))
      visit(slice, slice.in(filled));
    host.upload();
  }
}

Tensor scratch(DType dtype, const Shape& shape) {
  return Memory(Device{}).allocate(MemoryUse::data, dtype, shape);
}

void check_shape(const Checkpoint& checkpoint, const std::string& name, const Shape& expected) {
  check_input(checkpoint.contains(name), "'{}' has no tensor '{}', which this model needs",
              checkpoint.path().string(), name);
  check_input(checkpoint.tensor(name).shape == expected,
              "{}: this model needs the shape {}, the file has {}", checkpoint.where(name),
              expected, checkpoint.tensor(name).shape);
}

// A slice's weights in f32, as exactly as the checkpoint knows them.
Tensor exact_weights(Checkpoint& checkpoint, const KeptSlice& slice) {
  Tensor exact = scratch(DType::f32, slice.piece.extent);
  read_exact(checkpoint, slice.tensor, slice.piece.offset, exact.view());
  return exact;
}

bool keeps_low_bits(Session& session) {
  if (!session.options().training) return false;
  for (const Optimizer::State& state : session.optimizer().states())
    if (state.name + "." == kLowBitsPrefix) return true;
  return false;
}

// Halves of f32 weights: the values that are computed with, or what is left of them.
Tensor halves(const Tensor& exact, bool low_bits) {
  Tensor half = scratch(low_bits ? DType::i16 : DType::bf16, exact.view().shape());
  for (std::int64_t i = 0; i < exact.view().numel(); ++i) {
    const SplitWeight split = split_weight(exact.data<float>()[i]);
    if (low_bits)
      half.data<std::int16_t>()[i] = split.low_bits;
    else
      half.data<BFloat16>()[i] = split.value;
  }
  return half;
}

void read_weight(Session& session, Checkpoint& checkpoint, const KeptSlice& slice,
                 const View& part) {
  const std::string& name = slice.tensor;
  check_shape(checkpoint, name, slice.global);
  const DType saved = checkpoint.tensor(name).dtype;
  // Value and low bits together are the weight: they must be rounded alike.
  const bool splits = part.dtype() == DType::bf16 && keeps_low_bits(session) &&
                      !(saved == DType::bf16 && checkpoint.contains(kLowBitsPrefix + name));
  if (!splits && (saved == part.dtype() || !has_exact(checkpoint, name)))
    return checkpoint.read_box(name, slice.piece.offset, slice.piece.extent, part);
  const Tensor exact = exact_weights(checkpoint, slice);
  if (splits)
    convert_into(part, halves(exact, false).view());
  else
    convert_into(part, exact.view());
}

void read_state(Checkpoint& checkpoint, const std::string& state, bool same_type,
                const KeptSlice& slice, const View& part) {
  const std::string prefix = state + ".";
  const std::string name = prefix + slice.tensor;
  const bool weights = prefix == kMasterPrefix || prefix == kLowBitsPrefix;
  if (weights && !(same_type && checkpoint.contains(name))) {
    const Tensor exact = exact_weights(checkpoint, slice);
    return convert_into(part, prefix == kLowBitsPrefix ? halves(exact, true).view() : exact.view());
  }
  check_shape(checkpoint, name, slice.global);
  checkpoint.read_box(name, slice.piece.offset, slice.piece.extent, part);
}

// Of the whole model, of which this rank may have a part.
std::vector<std::string> weight_names(const Session& session) {
  std::vector<std::string> names;
  DescribedModel model(session.options());
  for (const Parameter* parameter : model.parameters())
    for (const ShardedTensor& tensor : parameter->tensors()) names.push_back(tensor.name);
  return names;
}

// Optimizer state has the name of its weight, with that of the state in front.
bool is_state(const Checkpoint& checkpoint, const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot != name.npos && checkpoint.contains(name.substr(dot + 1));
}

void check_names(const Session& session, const Checkpoint& checkpoint, bool upcycle) {
  std::size_t weights = 0;
  for (const auto& [name, tensor] : checkpoint.manifest().tensors)
    if (!is_state(checkpoint, name)) ++weights;
  std::vector<std::string> names = weight_names(session);
  if (upcycle)
    std::erase_if(names, [](const std::string& name) { return dense_name(name).empty(); });
  const std::size_t expected = names.size();
  check_input(weights == expected, "'{}' holds {} tensors of weights, this model has {}",
              checkpoint.path().string(), weights, expected);
}

// Where the optimizer and the loss scale were.
void load_step_state(Session& session, const Checkpoint& checkpoint) {
  const std::string where = checkpoint.path().string();
  StepState state = session.optimizer().step_state(session.context());
  state.iteration = checkpoint.iteration();
  state.step = checkpoint.counter("optimizer_steps");
  check_input(state.step >= 0 && state.step <= checkpoint.iteration(),
              "'{}': {} optimizer steps at iteration {} cannot be", where, state.step,
              checkpoint.iteration());
  const SessionOptions& options = session.options();
  // A run that comes from another type finds its own scale.
  if (options.model.dtype == DType::f16 && options.optimizer.loss_scale == 0 &&
      weight_type(checkpoint) == DType::f16) {
    state.loss_scale = checkpoint.number("loss_scale");
    state.good_steps = checkpoint.counter("good_steps");
    state.overflows_left = checkpoint.counter("overflows_left");
    check_input(state.loss_scale > 0 && state.good_steps >= 0,
                "'{}': a loss scale of {} after {} good steps cannot be", where, state.loss_scale,
                state.good_steps);
  }
  session.optimizer().set_step_state(session.context(), state);
}

std::optional<std::uint64_t> order_seed_of(const Checkpoint& checkpoint, const Json& state) {
  if (!state.contains("order_seed")) return std::nullopt;
  return static_cast<std::uint64_t>(checkpoint.counter("order_seed"));
}

// Of schedule_iterations, which older versions did not keep.
constexpr std::int64_t kUnknown = -1;
// Times that a run may go on for longer: far more than any does.
constexpr std::size_t kMostOrders = 10'000;

std::vector<std::int64_t> order_samples_of(const Checkpoint& checkpoint, const Json& state) {
  std::vector<std::int64_t> samples;
  for (const Json& each : state.value("order_samples", Json::array())) {
    const bool good = each.is_number_integer() && each.get<std::int64_t>() > 0 &&
                      each.get<std::int64_t>() <= kMaxSamples && samples.size() < kMostOrders;
    check_input(good, "'{}': order_samples of its state holds {}, not a number of samples",
                checkpoint.path().string(), each.dump());
    samples.push_back(each.get<std::int64_t>());
  }
  return samples;
}

std::optional<Progress::OrderShape> order_shape_of(const Checkpoint& checkpoint,
                                                   const Json& state) {
  if (!state.contains("order_micro_batch_size")) return std::nullopt;
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  const std::int64_t micro = checkpoint.counter("order_micro_batch_size");
  const std::int64_t ranks = checkpoint.counter("order_ranks");
  check_input(micro >= 1 && micro <= kMost && ranks >= 1 && ranks <= kMost,
              "'{}': an order of samples for {} ranks with microbatches of {} cannot be",
              checkpoint.path().string(), ranks, micro);
  return Progress::OrderShape{micro, static_cast<int>(ranks)};
}

// Sixteen hexadecimal digits, since JSON's numbers are not exact.
std::optional<std::uint64_t> order_digest_of(const Checkpoint& checkpoint, const Json& state,
                                             std::int64_t consumed) {
  if (!state.contains("order_digest"))
    return consumed == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
  const Json& digits = state["order_digest"];
  std::uint64_t digest = 0;
  bool good = digits.is_string() && digits.get_ref<const std::string&>().size() == 16;
  if (good) {
    const std::string& text = digits.get_ref<const std::string&>();
    const char* end = text.data() + text.size();
    good = std::from_chars(text.data(), end, digest, 16).ptr == end;
  }
  check_input(good, "'{}': the digest of the samples' order is {}, expected 16 hexadecimal digits",
              checkpoint.path().string(), digits.dump());
  return digest;
}

}  // namespace

std::string state_of(Session& session, const Progress& progress) {
  const StepState state = session.optimizer().step_state(session.context());
  Json json{{"iteration", progress.iteration},
            {"consumed_samples", progress.consumed_samples},
            {"schedule_samples", progress.schedule_samples},
            {"schedule_iterations", progress.schedule_iterations},
            {"evaluation_due", progress.evaluation_due},
            {"optimizer_steps", state.step},
            {"loss_scale", state.loss_scale},
            {"good_steps", state.good_steps},
            {"overflows_left", state.overflows_left},
            {"rng", {{"kind", "philox4x32-10"}, {"seed", session.options().seed}}},
            {"order_seed", progress.order_seed.value_or(session.options().seed)},
            {"order_samples", progress.order_samples}};
  if (progress.order_shape) {
    json["order_micro_batch_size"] = progress.order_shape->micro_batch_size;
    json["order_ranks"] = progress.order_shape->ranks;
  }
  if (progress.order_digest) json["order_digest"] = fmt::format("{:016x}", *progress.order_digest);
  return json.dump();
}

Progress progress_of(const Checkpoint& checkpoint) {
  const Json state = parse_json(checkpoint.manifest().state, checkpoint.path().string());
  Progress progress{
      checkpoint.counter("iteration"),
      checkpoint.counter("consumed_samples"),
      checkpoint.counter("schedule_samples"),
      state.contains("schedule_iterations") ? checkpoint.counter("schedule_iterations") : kUnknown,
      state.value("evaluation_due", Json(false)) == Json(true),
      order_seed_of(checkpoint, state),
      order_samples_of(checkpoint, state),
      order_shape_of(checkpoint, state),
      order_digest_of(checkpoint, state, checkpoint.counter("consumed_samples"))};
  check_input(progress.iteration == checkpoint.iteration() && progress.consumed_samples >= 0 &&
                  progress.schedule_samples >= 0,
              "'{}' says iteration {} in a folder of iteration {}", checkpoint.path().string(),
              progress.iteration, checkpoint.iteration());
  return progress;
}

DType weight_type(const Checkpoint& checkpoint) { return checkpoint.tensor(kWordTable).dtype; }

void load_weights(Session& session, Checkpoint& checkpoint, bool upcycle) {
  check_names(session, checkpoint, upcycle);
  const auto read = [&](const KeptSlice& slice, const View& part) {
    read_weight(session, checkpoint, slice, part);
  };
  const Upcycling upcycling(session.options().model);
  const auto read_dense = [&](const KeptSlice& slice, const View& part) {
    upcycling.fill(
        slice.tensor, slice.global, slice.piece, part,
        [&](const std::string& name, const Shape& global, const ShardPiece& piece, const View& to) {
          read({name, global, piece}, to);
        });
  };
  if (upcycle)
    fill_slices(session, session.parameters().values(), read_dense);
  else
    fill_slices(session, session.parameters().values(), read);
  // Each rank has read its own files, which may have taken long.
  session.context().mesh.world().barrier_without_timeout();
  session.adopt_values();
}

void load_optimizer(Session& session, Checkpoint& checkpoint) {
  bool any = false;
  for (const auto& [name, tensor] : checkpoint.manifest().tensors)
    any = any || is_state(checkpoint, name);
  check_input(any || session.parameters().state_elements() == 0,
              "'{}' was saved without optimizer state: continue with --no-load-optim or --finetune",
              checkpoint.path().string());
  const bool same_type = weight_type(checkpoint) == session.options().model.dtype;
  for (const Optimizer::State& state : session.optimizer().states())
    fill_slices(session, state.blocks, [&](const KeptSlice& slice, const View& part) {
      read_state(checkpoint, state.name, same_type, slice, part);
    });
  load_step_state(session, checkpoint);
}

}  // namespace tessera

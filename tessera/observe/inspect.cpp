#include "tessera/observe/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/pipeline/schedules.h"
#include "tessera/spec/flops.h"
#include "tessera/spec/layer_activations.h"

namespace tessera {
namespace {

std::string human_bytes(std::int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b >= 1 << 30) return fmt::format("{:.2f} GiB", b / (1 << 30));
  if (b >= 1 << 20) return fmt::format("{:.2f} MiB", b / (1 << 20));
  return fmt::format("{:.2f} KiB", b / (1 << 10));
}

std::string with_commas(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (auto i = static_cast<std::int64_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return digits;
}

void add(MemoryCounters& counters, MemoryUse use, std::int64_t bytes) {
  counters.bytes[static_cast<std::size_t>(use)] += bytes;
}

std::string who_keeps(const RecomputeOptions& recompute) {
  const std::int64_t n = recompute.num_layers;
  if (recompute.granularity != RecomputeGranularity::full) return "a layer";
  if (recompute.method == RecomputeMethod::block)
    return fmt::format("each of the first {} layer(s), which are computed again,", n);
  return n == 1 ? "a layer" : fmt::format("each group of {} layers", n);
}

std::string terms_text(const std::vector<ActivationTerm>& terms) {
  std::string text;
  for (const ActivationTerm& term : terms)
    text +=
        fmt::format("  {:<32} {:<16} {:>16}\n", term.name, term.formula, with_commas(term.bytes));
  return text +
         fmt::format("  {:<32} {:<16} {:>16} bytes\n", "all", "", with_commas(total_bytes(terms)));
}

// All depths have the same layer.
std::string mtp_text(const SessionOptions& options) {
  const ModelSpec spec = model_spec(options.model);
  if (spec.mtp.empty()) return "";
  return "\nheld by a depth of multi-token prediction for the one microbatch at work, on one "
         "rank\n" +
         terms_text(mtp_activations(spec.mtp.front(), spec.dtype, options.recompute,
                                    options.parallel, options.shape));
}

// Of the activations, what each layer keeps per microbatch in flight.
std::string layer_text(const SessionOptions& options) {
  // Layers that keep the same are told of together.
  std::vector<std::pair<std::vector<ActivationTerm>, std::vector<std::size_t>>> kinds;
  const ModelSpec spec = model_spec(options.model);
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    auto terms = layer_activations(spec.layers[layer], spec.dtype, options.recompute,
                                   options.parallel, options.shape);
    const auto same = std::ranges::find(kinds, terms, [](const auto& kind) { return kind.first; });
    if (same == kinds.end())
      kinds.push_back({std::move(terms), {layer}});
    else
      same->second.push_back(layer);
  }
  std::string text;
  for (const auto& [terms, layers] : kinds) {
    text += fmt::format("\nkept by {}{} for one microbatch, on one rank\n",
                        who_keeps(options.recompute),
                        kinds.size() > 1 ? fmt::format(" (of {})", fmt::join(layers, ", ")) : "");
    text += terms_text(terms);
  }
  return text;
}

std::int64_t state_elements(const std::vector<ParameterPlan>& parameters) {
  std::int64_t elements = 0;
  for (const ParameterPlan& each : parameters)
    elements += each.layout.trained_elements() / each.layout.shards();
  return elements;
}

// How the parameters of a class and their gradients are shared: what formulas leave out.
std::string class_text(const ParameterPlan& plan, std::int64_t own, const std::string& whose) {
  std::string text = fmt::format("  {}: {}, {} of padding", whose, with_commas(own),
                                 with_commas(plan.layout.elements() - own));
  if (plan.options.shards > 1)
    text += fmt::format("; {} ranks have a share each", plan.options.shards);
  if (plan.options.shard_values)
    text += fmt::format("\n  elements of gathered FSDP units: {}",
                        with_commas(plan.elements.all_values() - plan.elements.values));
  if (plan.options.shard_gradients)
    text += fmt::format("\n  elements of an FSDP unit's gradients before they are summed: {}",
                        with_commas(plan.elements.grad_slot));
  return text + "\n";
}

// Of all classes that a pipeline rank has, and what lies elsewhere.
std::string state_text(const SessionOptions& options, int pipeline_rank) {
  if (!options.training) return "";
  DescribedModel model(options, pipeline_rank);
  const std::vector<ParameterPlan> parameters = plan_parameters(options, model.fsdp_units());
  std::string text;
  for (const ParameterPlan& each : parameters) {
    const PlacementClass placement_class = each.options.placement_class;
    std::int64_t own = 0;
    for (const Parameter* parameter : model.parameters())
      if (parameter->placement_class() == placement_class) own += parameter->shape().numel();
    if (own == 0) continue;
    text += class_text(
        each, own,
        fmt::format("{}elements of {}parameters",
                    options.parallel.pipeline > 1 ? fmt::format("rank {}: ", pipeline_rank) : "",
                    parameters.size() > 1 ? fmt::format("{} ", to_string(placement_class)) : ""));
  }
  if (const std::int64_t host = Optimizer::host_bytes_for(
          options.optimizer, state_elements(parameters), options.model.dtype))
    text += fmt::format("  optimizer state on the host: {}\n", human_bytes(host));
  return text;
}

MemoryCounters plan_memory(const SessionOptions& options, int threads, int pipeline_rank,
                           const std::vector<Schedule>& training) {
  Memory memory = Memory::counting(options.device);
  Stream stream(options.device);
  CudaOptions cuda = options.cuda;
  cuda.gemm_file.clear();  // nothing is multiplied
  const std::unique_ptr<Kernels> kernels = make_kernels(options.device, threads, cuda);
  const Mesh mesh({}, make_self_communicator());  // nobody talks
  Context context{*kernels, stream, mesh, {}};
  DescribedModel model(options, pipeline_rank);
  const Session::Plan plan =
      Session::plan(options, model.chunks(), pipeline_rank, *kernels, training);
  const std::deque<StageRunner> runners =
      Session::make_runners(model.chunks(), context, plan.runner);
  const RunnerMemory runner_memory = Session::memory_for(runners, memory, plan.runner);
  const DeviceBatches batches(
      memory, options.shape, options.microbatches, batch_limits(options),
      BatchShare{{std::max(1, options.parallel.tensor_2d), 0}, {options.parallel.context, 0}});
  MemoryCounters counters = memory.counters();
  add(counters, MemoryUse::data, Session::step_value_bytes(options, model.chunks()));
  const std::vector<ParameterPlan> parameters = plan_parameters(options, model.fsdp_units());
  const auto bytes = [](std::int64_t count, DType type) {
    return count * static_cast<std::int64_t>(element_size(type));
  };
  for (const ParameterPlan& each : parameters)
    add(counters, MemoryUse::parameters, bytes(each.elements.all_values(), each.options.dtype));
  for (const GptModel& chunk : model.chunks())
    add(counters, MemoryUse::parameters, chunk.rope_bytes(plan.positions));
  add(counters, MemoryUse::activations,
      plan.boundary_buffers *
          BoundaryBuffers::message_bytes(options.model.dtype, boundary_shape(options)));
  add(counters, MemoryUse::workspace, static_cast<std::int64_t>(plan.workspace_bytes));
  if (!options.training) return counters;
  for (const ParameterPlan& each : parameters)
    if (each.options.gradients)
      add(counters, MemoryUse::gradients,
          bytes(each.elements.all_grads(), *each.options.gradients) +
              bytes(each.elements.bf16_in + each.elements.bf16_out, DType::bf16));
  add(counters, MemoryUse::optimizer,
      Optimizer::bytes_for(options.optimizer, state_elements(parameters), options.model.dtype,
                           parameters.size()));
  return counters;
}

std::string bytes_of_use(const MemoryCounters& counters, int use) {
  return human_bytes(counters.bytes[static_cast<std::size_t>(use)]);
}

// A line for each use.
std::string rank_text(const MemoryCounters& counters) {
  std::string text;
  for (int i = 0; i < kMemoryUses; ++i)
    text += fmt::format("  {:<14} {:>12}\n", to_string(static_cast<MemoryUse>(i)),
                        bytes_of_use(counters, i));
  return text + fmt::format("  {:<14} {:>12}\n", "total", human_bytes(counters.total()));
}

// A row for each pipeline rank: they have different layers, and hold different numbers of
// microbatches.
std::string pipeline_text(const SessionOptions& options, int threads) {
  std::string text = "  rank";
  for (int i = 0; i < kMemoryUses; ++i)
    text += fmt::format(" {:>12}", to_string(static_cast<MemoryUse>(i)));
  text += fmt::format(" {:>12}\n", "total");
  const std::vector<Schedule> training = training_schedules(options);
  for (int rank = 0; rank < options.parallel.pipeline; ++rank) {
    const MemoryCounters counters = plan_memory(options, threads, rank, training);
    text += fmt::format("  {:<4}", rank);
    for (int i = 0; i < kMemoryUses; ++i) text += fmt::format(" {:>12}", bytes_of_use(counters, i));
    text += fmt::format(" {:>12}\n", human_bytes(counters.total()));
  }
  return text;
}

std::string memory_text(const SessionOptions& options, int threads) {
  const int ranks = options.parallel.pipeline;
  std::string text = fmt::format(
      "\nmemory of {} ({}, {}, {}microbatch{} of {} x {} tokens)\n",
      ranks > 1 ? "each pipeline rank" : "one rank",
      options.device.kind == DeviceKind::cuda ? "cuda" : "cpu", to_string(options.model.dtype),
      options.microbatches > 1 ? fmt::format("{} ", options.microbatches) : "",
      options.microbatches > 1 ? "es" : "", options.shape.batch, options.shape.seq);
  text += ranks > 1 ? pipeline_text(options, threads) : rank_text(plan_memory(options, threads));
  for (int rank = 0; rank < ranks; ++rank) text += state_text(options, rank);
  return text;
}

}  // namespace

MemoryCounters plan_memory(const SessionOptions& options, int threads, int pipeline_rank) {
  return plan_memory(options, threads, pipeline_rank, training_schedules(options));
}

std::string inspect_text(const SessionOptions& options, int threads) {
  DescribedModel model(options);
  std::string text = fmt::format("{:<44} {:>18} {:>16}\n", "parameter", "shape", "elements");
  std::int64_t total = 0;
  for (const Parameter* parameter : model.parameters())
    for (const ShardedTensor& tensor : parameter->tensors()) {
      text +=
          fmt::format("{:<44} {:>18} {:>16}{}\n", tensor.name, tensor.global.to_string(),
                      with_commas(tensor.global.numel()), parameter->trained() ? "" : "  frozen");
      total += tensor.global.numel();
    }
  text += fmt::format("{:<44} {:>18} {:>16}\n", "total", "", with_commas(total));
  if (options.shape.rows() == 0) return text;

  text +=
      fmt::format("\nFLOPs per token (forward and backward, {} tokens a sequence): {:.4g}\n",
                  options.shape.seq, flops_per_token(model_spec(options.model), options.shape.seq));
  text += memory_text(options, threads);
  return options.training ? text + layer_text(options) + mtp_text(options) : text;
}

}  // namespace tessera

#include "tessera/pipeline/stage_split.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/pipeline/layout_string.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

using std::int64_t;

std::string counted(const ModelOutline& model, const PipelineOptions& options) {
  std::string text = fmt::format("{} layers", model.layers);
  if (options.count_embedding) text += " + the embedding";
  if (options.count_loss) text += " + the loss";
  return text;
}

std::string ends_text(const PipelineOptions& options) {
  if (options.last_layers == 0) return fmt::format("the first takes {}", options.first_layers);
  if (options.first_layers == 0) return fmt::format("the last takes {}", options.last_layers);
  return fmt::format("the first takes {} and the last {}", options.first_layers,
                     options.last_layers);
}

// The number of layers of each rank; the embedding and the loss count as layers if the options say
// so.
std::vector<int64_t> counts_by_rank(const ModelOutline& model, const PipelineOptions& options,
                                    int ranks) {
  const int64_t all = model.layers + options.count_embedding + options.count_loss;
  const int64_t first = options.first_layers, last = options.last_layers;
  const bool ends = first > 0 || last > 0;
  check_input(!ends || ranks > 1,
              "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers set the "
              "first and the last of several pipeline ranks, but --pipeline-model-parallel-size is "
              "1: raise it, or drop them");
  const int64_t middle = all - first - last;
  const int others = ranks - (first > 0) - (last > 0);
  check_input(ends || middle >= others,
              "{} are fewer than the {} pipeline ranks (--pipeline-model-parallel-size): use fewer "
              "ranks, or give --pipeline-model-parallel-layout",
              counted(model, options), ranks);
  check_input(middle >= others && (others > 0 || middle == 0),
              "{} over {} pipeline ranks: {}, which leaves {} for {} others; change the counts "
              "(--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers), the "
              "layers or the ranks",
              counted(model, options), ranks, ends_text(options), middle, others);
  check_input(
      others == 0 || middle % others == 0,
      "{} over {} {}pipeline ranks: {} is not a multiple of {}; change one of them, count "
      "the embedding or the loss as a layer (--account-for-embedding-in-pipeline-split, "
      "--account-for-loss-in-pipeline-split), set the first or last rank's layers "
      "(--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers), or give "
      "--pipeline-model-parallel-layout",
      ends ? fmt::format("{} of {}", middle, counted(model, options)) : counted(model, options),
      others, ends ? "other " : "", middle, others);
  std::vector<int64_t> counts(static_cast<std::size_t>(ranks), others == 0 ? 0 : middle / others);
  if (first > 0) counts.front() = first;
  if (last > 0) counts.back() = last;
  return counts;
}

std::vector<int64_t> layers_by_stage(const ModelOutline& model, const PipelineOptions& options,
                                     const PipelineShape& shape) {
  const std::vector<int64_t> by_rank = counts_by_rank(model, options, shape.ranks);
  const bool vee = shape.placement == StagePlacement::vee;
  std::vector<int64_t> by_stage;
  for (int stage = 0; stage < shape.stages(); ++stage) {
    const int rank = place_of(shape, stage).rank;
    const int64_t count = by_rank[static_cast<std::size_t>(rank)];
    check_input(
        count % shape.chunks == 0,
        "pipeline rank {} has {}, which its {} virtual stages{} cannot share evenly: change "
        "the number of layers, of ranks{}",
        rank, count == 1 ? "1 layer" : fmt::format("{} layers", count), shape.chunks,
        vee ? " (--pipeline-schedule zb-v has two)" : "",
        vee ? ", or the schedule" : " or of virtual stages");
    by_stage.push_back(count / shape.chunks);
  }
  by_stage.front() -= options.count_embedding;
  by_stage.back() -= options.count_loss;
  return by_stage;
}

}  // namespace

StagePart whole_part(const ModelOutline& model) { return {{0, model.layers}, true, true, false}; }

int stages_of_layout(const std::string& layout) {
  return static_cast<int>(read_layout(layout).size());
}

std::vector<StagePart> split_stages(const ModelOutline& model, const PipelineOptions& options,
                                    int ranks) {
  const PipelineShape shape = make_pipeline_shape(options, ranks, 1);
  std::vector<int64_t> layers;
  if (options.layout.empty())
    layers = layers_by_stage(model, options, shape);
  else
    layers = layers_of_layout(options.layout, model.layers, model.mtp_layers, shape.stages());
  for (int rank = 0; rank < ranks; ++rank) {
    bool any = false;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int stage = stage_at(shape, {rank, chunk});
      any |=
          layers[static_cast<std::size_t>(stage)] > 0 || stage == 0 || stage == shape.stages() - 1;
    }
    check_input(any,
                "pipeline rank {} has no layers, no embedding and no loss: give it some, or "
                "use fewer ranks",
                rank);
  }
  std::vector<StagePart> parts;
  int64_t begin = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const bool first = stage == 0, last = stage + 1 == layers.size();
    const bool tied_apart = model.tied && layers.size() > 1 && (first || last);
    parts.push_back({{begin, begin + layers[stage]}, first, last, tied_apart});
    begin += layers[stage];
  }
  return parts;
}

std::string describe_stages(const PipelineShape& shape, const std::vector<StagePart>& parts) {
  std::string text;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    text += fmt::format("  rank {}:", rank);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const StagePart& part = parts[static_cast<std::size_t>(stage_at(shape, {rank, chunk}))];
      std::string held;
      const auto add = [&](const std::string& what) { held += (held.empty() ? "" : ", ") + what; };
      if (part.embedding) add("embedding");
      if (part.layers.length() == 1) add(fmt::format("layer {}", part.layers.begin));
      if (part.layers.length() > 1)
        add(fmt::format("layers {}-{}", part.layers.begin, part.layers.end - 1));
      if (part.head) add("final norm, output layer, loss");
      text += fmt::format("{} {}", chunk > 0 ? ";" : "", held.empty() ? "nothing" : held);
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera

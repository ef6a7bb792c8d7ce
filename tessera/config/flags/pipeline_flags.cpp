// How layers and microbatches are spread over a pipeline.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"
#include "tessera/pipeline/schedules.h"

namespace tessera::config {
namespace {

bool has_pipeline(const Settings& s) { return s.options.parallel.pipeline > 1; }
constexpr std::string_view kNeedsPipeline = "--pipeline-model-parallel-size above 1";

bool has_virtual_stages(const Settings& s) {
  const PipelineOptions& p = s.options.pipeline;
  return p.chunks > 1 || p.virtual_stages > 1 || p.layers_per_chunk > 0 || !p.layout.empty();
}

bool searches(const Settings& s) { return s.options.pipeline.schedule == ScheduleKind::search; }

// Layers to stages.
std::vector<Flag> split_flags() {
  constexpr IntegerRange kLayers = {1, kMaxLayers};
  constexpr IntegerRange kChunks = {1, 1024};
  std::vector<Flag> flags{
      integer(
          "num-layers-per-virtual-pipeline-stage", at(&PipelineOptions::layers_per_chunk), kLayers,
          "number of layers per virtual pipeline stage; each pipeline rank gets several stages"),
      integer("num-virtual-stages-per-pipeline-rank", at(&PipelineOptions::virtual_stages), kChunks,
              "number of virtual stages per pipeline rank"),
      text("pipeline-model-parallel-layout", at(&PipelineOptions::layout), "STAGES", kMaxPathBytes,
           "layers of each stage as a string such as Et*3|(tt|)*29L: E embedding, t layer, L loss, "
           "| ends a stage, * repeats"),
      integer("decoder-first-pipeline-num-layers", at(&PipelineOptions::first_layers), kLayers,
              "number of layers of the first pipeline rank, if it differs from the others"),
      integer("decoder-last-pipeline-num-layers", at(&PipelineOptions::last_layers), kLayers,
              "number of layers of the last pipeline rank, if it differs from the others"),
      toggle("account-for-embedding-in-pipeline-split", at(&PipelineOptions::count_embedding),
             "count the embedding as a layer when layers are divided evenly"),
      toggle("account-for-loss-in-pipeline-split", at(&PipelineOptions::count_loss),
             "count the output layer with its loss as a layer"),
  };
  for (Flag& flag : flags) flag = std::move(flag).only_if(has_pipeline, kNeedsPipeline);
  return flags;
}

std::vector<Name<ScheduleKind>> schedule_words() {
  std::vector<Name<ScheduleKind>> words;
  for (const ScheduleName& name : schedule_names()) words.push_back({name.kind, name.flag});
  return words;
}

// Microbatches to time.
std::vector<Flag> pipeline_schedule_flags() {
  constexpr IntegerRange kGroup = {1, 1 << 20};
  constexpr RealRange kTime = {1e-9, 1e9};
  return {
      word("pipeline-schedule", at(&PipelineOptions::schedule), schedule_words(),
           "pipeline schedule; auto is interleaved with virtual stages and 1f1b without"),
      integer("microbatch-group-size-per-virtual-pipeline-stage",
              at(&PipelineOptions::microbatch_group), kGroup,
              "interleaved: number of consecutive microbatches per virtual stage [default: "
              "--pipeline-model-parallel-size]")
          .only_if(has_virtual_stages, "virtual stages"),
      reals("pipeline-action-times", at(&PipelineOptions::action_times), kTime,
            "search: durations of forward, input gradient and weight gradient in any unit; three "
            "numbers for all stages, or three per stage [default: 1 1 1]")
          .only_if(searches, "--pipeline-schedule search"),
      integer("pipeline-memory-limit", at(&PipelineOptions::memory_limit), kGroup,
              "search: maximum number of microbatches in flight per rank [default: "
              "--pipeline-model-parallel-size]")
          .only_if(searches, "--pipeline-schedule search"),
  };
}

std::vector<Flag> picture_flags() {
  Flag draw = toggle("schedule", at(&Settings::schedule),
                     "draw the pipeline schedule; takes all flags of tessera train")
                  .never_shown();
  draw.command_line_only = true;
  Flag file = path("schedule-file", at(&Settings::schedule_file), "FILE.svg",
                   "also write the schedule as an SVG image")
                  .only_if([](const Settings& s) { return s.schedule; }, "--schedule")
                  .never_shown();
  file.command_line_only = true;
  Flag trace =
      path("trace", at(&Settings::trace), "FILE",
           "draw the schedule that --profile recorded in a run with these flags instead of the "
           "plan; FILE is the trace of rank 0, with those of the other ranks in the same folder")
          .only_if([](const Settings& s) { return s.schedule; }, "--schedule")
          .never_shown();
  trace.command_line_only = true;
  std::vector<Flag> flags;
  flags.push_back(std::move(trace));
  flags.push_back(std::move(draw));
  flags.push_back(std::move(file));
  return flags;
}

}  // namespace

void append_pipeline_flags(std::vector<Flag>& table) {
  append(table, Group::parallel,
         {Command::train, Command::inspect, Command::evaluate, Command::generate}, split_flags());
  append(table, Group::parallel, {Command::train, Command::inspect}, pipeline_schedule_flags());
  append(table, Group::parallel, {Command::inspect}, picture_flags());
}

}  // namespace tessera::config

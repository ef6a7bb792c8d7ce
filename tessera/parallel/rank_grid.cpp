#include "tessera/parallel/rank_grid.h"

#include <cstdint>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// The two outer axes, of which either varies faster.
struct Outer {
  int data, pipeline;
};

Outer outer_of(int number, int data, int pipeline, bool pipeline_first) {
  return pipeline_first ? Outer{number / pipeline, number % pipeline}
                        : Outer{number % data, number / data};
}

int outer_number(const Outer& at, int data, int pipeline, bool pipeline_first) {
  return pipeline_first ? at.pipeline + pipeline * at.data : at.data + data * at.pipeline;
}

}  // namespace

RankGrid::RankGrid(const ParallelOptions& options, int ranks)
    : tensor_(options.tensor),
      context_(options.context),
      data_(options.data),
      pipeline_(options.pipeline),
      pipeline_first_(options.pipeline_before_data) {
  check_input(
      tensor_ >= 1 && context_ >= 1 && data_ >= 1 && pipeline_ >= 1,
      "every degree of parallelism must be at least 1: tensor {}, context {}, data {}, pipeline {}",
      tensor_, context_, data_, pipeline_);
  check_input(this->ranks() == ranks,
              "tensor {} x context {} x data {} x pipeline {} = {} ranks, but {} are running",
              tensor_, context_, data_, pipeline_, this->ranks(), ranks);
}

int RankGrid::size(Axis axis) const {
  switch (axis) {
    case Axis::tensor: return tensor_;
    case Axis::context: return context_;
    case Axis::data: return data_;
    case Axis::pipeline: return pipeline_;
  }
  fail("unknown axis");
}

RankCoordinates RankGrid::coordinates(int rank) const {
  const Outer outer = outer_of(rank / (tensor_ * context_), data_, pipeline_, pipeline_first_);
  return {rank % tensor_, rank / tensor_ % context_, outer.data, outer.pipeline};
}

int RankGrid::rank(const RankCoordinates& at) const {
  const int outer = outer_number({at.data, at.pipeline}, data_, pipeline_, pipeline_first_);
  return at.tensor + tensor_ * (at.context + context_ * outer);
}

int RankGrid::coordinate(int rank, Axis axis) const {
  const RankCoordinates at = coordinates(rank);
  switch (axis) {
    case Axis::tensor: return at.tensor;
    case Axis::context: return at.context;
    case Axis::data: return at.data;
    case Axis::pipeline: return at.pipeline;
  }
  fail("unknown axis");
}

int RankGrid::first_along(int rank, std::span<const Axis> axes) const {
  RankCoordinates at = coordinates(rank);
  for (const Axis axis : axes) switch (axis) {
      case Axis::tensor: at.tensor = 0; break;
      case Axis::context: at.context = 0; break;
      case Axis::data: at.data = 0; break;
      case Axis::pipeline: at.pipeline = 0; break;
    }
  return this->rank(at);
}

ExpertGrid::ExpertGrid(const ParallelOptions& options, int ranks)
    : tensor_(options.expert_tensor_size()),
      expert_(options.expert),
      data_(1),
      pipeline_(options.pipeline),
      pipeline_first_(options.pipeline_before_data) {
  check_input(tensor_ >= 1 && expert_ >= 1 && pipeline_ >= 1,
              "every degree of parallelism must be at least 1: expert tensor {}, expert {}, "
              "pipeline {}",
              tensor_, expert_, pipeline_);
  const std::int64_t needed = std::int64_t{tensor_} * expert_ * pipeline_;
  check_input(
      ranks >= needed && ranks % needed == 0,
      "expert tensor {} x expert {} x pipeline {} = {} ranks, of which {} is not a multiple",
      tensor_, expert_, pipeline_, needed, ranks);
  data_ = static_cast<int>(ranks / needed);
}

ExpertCoordinates ExpertGrid::coordinates(int rank) const {
  const Outer outer = outer_of(rank / (tensor_ * expert_), data_, pipeline_, pipeline_first_);
  return {rank % tensor_, rank / tensor_ % expert_, outer.data, outer.pipeline};
}

int ExpertGrid::rank(const ExpertCoordinates& at) const {
  const int outer = outer_number({at.data, at.pipeline}, data_, pipeline_, pipeline_first_);
  return at.tensor + tensor_ * (at.expert + expert_ * outer);
}

int ExpertGrid::first_along(int rank, std::span<const ExpertAxis> axes) const {
  ExpertCoordinates at = coordinates(rank);
  for (const ExpertAxis axis : axes) switch (axis) {
      case ExpertAxis::tensor: at.tensor = 0; break;
      case ExpertAxis::expert: at.expert = 0; break;
      case ExpertAxis::data: at.data = 0; break;
      case ExpertAxis::pipeline: at.pipeline = 0; break;
    }
  return this->rank(at);
}

}  // namespace tessera

#include "tessera/pipeline/stage_placement.h"

namespace tessera {
namespace {

// On the way back of a V the ranks are in reverse order.
int along(const PipelineShape& shape, int chunk, int position) {
  const bool back = shape.placement == StagePlacement::vee && chunk % 2 == 1;
  return back ? shape.ranks - 1 - position : position;
}

}  // namespace

StagePlace place_of(const PipelineShape& shape, int stage) {
  const int chunk = stage / shape.ranks;
  return {along(shape, chunk, stage % shape.ranks), chunk};
}

int stage_at(const PipelineShape& shape, const StagePlace& place) {
  return place.chunk * shape.ranks + along(shape, place.chunk, place.rank);
}

}  // namespace tessera

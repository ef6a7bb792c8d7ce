// Where parameters and gradients live: one contiguous block each, so that the optimizer runs over
// few long ranges.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class ParameterBuffers {
 public:
  /// The part of a block that holds the parameters with, or without, weight decay.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t length = 0;
    bool decays = false;
    View in(const View& block) const { return block.slice(0, begin, length); }
  };

  /// Binds every parameter. Without a type for them there are no gradients. Both blocks start as
  /// zeros, and the gaps that align parameters stay zero through every update.
  ParameterBuffers(const ParameterList& parameters, Context& context, Memory& memory,
                   std::optional<DType> gradients);

  const ParameterList& parameters() const { return parameters_; }
  const std::array<Range, 2>& ranges() const { return ranges_; }
  std::int64_t elements() const { return values_.view().numel(); }
  DType dtype() const { return values_.view().dtype(); }
  View values() const { return values_.view(); }
  View grads() const { return grads_.view(); }
  /// A parameter's part of any block laid out like this one (an optimizer moment).
  View part(const View& block, std::size_t parameter) const;

  /// The gradients that count in the norm, flat and in as few pieces as possible: the gaps between
  /// neighbours are zeros and do not count.
  std::vector<View> counted_grads() const;

  /// The size of a block for these parameters, gaps included.
  static std::int64_t elements_for(const ParameterList& parameters);

  void begin_step();
  /// Parameters that got no gradient in this step get zeros, and gradients of which ranks have
  /// parts are summed.
  void finish_gradients(Context& context);

 private:
  /// Gradients of which each rank has a part.
  struct Partial {
    GradientSum over;
    Range range;
  };

  ParameterList parameters_;
  std::vector<std::int64_t> offsets_;
  std::array<Range, 2> ranges_;
  std::vector<Partial> partials_;
  Tensor values_;
  Tensor grads_;
};

}  // namespace tessera

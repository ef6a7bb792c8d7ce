// All parameters of a rank's part of the model. Each placement class that the model uses
// (parallel/placement.h) has its own buffers and data parallelism. Other modules iterate over the
// classes, or over their blocks of memory, and never name a particular one.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tessera/optim/data_parallel.h"
#include "tessera/optim/parameter_buffers.h"

namespace tessera {

class ModelParameters final : public ModuleHooks {
 public:
  /// `classes`: every class that some rank of the model has parameters of, in the same order on all
  /// ranks.
  ModelParameters(const std::vector<ParameterList>& units, Context& context, Memory& memory,
                  const std::vector<ParameterBuffers::Options>& classes,
                  const DataParallel::Options& options);

  const std::deque<ParameterBuffers>& classes() const { return classes_; }
  DType dtype() const { return classes_.front().dtype(); }
  /// The parameters of all classes.
  ParameterList parameters() const;
  std::int64_t state_elements() const;
  /// One block of each class.
  std::vector<ParameterBlock> values() const;
  std::vector<ParameterBlock> grads() const;

  /// Initialises the values from the seed, bucket by bucket, so that a rank never needs more memory
  /// than one bucket for sharded parameters.
  void initialize(Context& context, std::uint64_t seed);

  // The calls of DataParallel, for all classes.
  void set_microbatches(int count);
  void begin_step();
  void step_replayed();
  void forget_buffers();
  void before_use(std::size_t unit, NextFsdpUnit next) override;
  void before_gradients(std::size_t unit) override;
  void gradients_added(std::size_t unit, bool last) override;
  void finish_gradients();
  void parameters_updated();
  void wait_for_param_gather();

 private:
  std::deque<ParameterBuffers> classes_;
  std::deque<DataParallel> data_parallel_;  ///< one of each class
};

}  // namespace tessera

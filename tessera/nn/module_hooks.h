// Callbacks around the use of an FSDP unit (embedding, block, final norm, output layer). Called by
// the stage runner, implemented by `ModelParameters`, which forwards to `DataParallel`.
#pragma once

#include <cstddef>

namespace tessera {

/// Prefetch hint: which FSDP unit is used next.
enum class NextFsdpUnit { following, preceding, unknown };

class ModuleHooks {
 public:
  virtual ~ModuleHooks() = default;
  /// Work launched on the stream after this call reads the FSDP unit's parameters, until those of
  /// another unit are requested.
  virtual void before_use(std::size_t /*unit*/, NextFsdpUnit) {}
  /// Work launched after this call adds to the FSDP unit's gradients.
  virtual void before_gradients(std::size_t /*unit*/) {}
  /// Called when that work has been launched. `last`: this microbatch adds nothing more to the
  /// unit.
  virtual void gradients_added(std::size_t /*unit*/, bool /*last*/) {}
};

}  // namespace tessera

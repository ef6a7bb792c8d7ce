// Observer of parameter use: callbacks around the use of an FSDP unit (the embedding, a block, or
// the final norm with the head). Called by the stage runner, implemented by `DataParallel`.
#pragma once

#include <cstddef>

namespace tessera {

/// The FSDP unit that is used next, as far as it is known.
enum class NextFsdpUnit { following, preceding, unknown };

class ModuleHooks {
 public:
  virtual ~ModuleHooks() = default;
  /// Work launched on the stream after this call reads the FSDP unit's values, until the values of
  /// another unit are requested.
  virtual void before_use(std::size_t /*unit*/, NextFsdpUnit) {}
  /// Work launched after this call adds to the FSDP unit's gradients.
  virtual void before_gradients(std::size_t /*unit*/) {}
  /// That work has been launched. `last`: it was the last of this microbatch for the unit.
  virtual void gradients_added(std::size_t /*unit*/, bool /*last*/) {}
};

}  // namespace tessera

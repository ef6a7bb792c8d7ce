// What happens around the work with the parameters of an FSDP unit: the embedding, a block, or the
// final norm with the head. Whoever runs the layers calls; whoever keeps the parameters answers.
#pragma once

#include <cstddef>

namespace tessera {

/// Which FSDP unit is used after this one, as far as that is known.
enum class NextFsdpUnit { following, preceding, unknown };

class ModuleHooks {
 public:
  virtual ~ModuleHooks() = default;
  /// The FSDP unit's values are to be there for work put on the stream from now on, until another
  /// FSDP unit's are asked for.
  virtual void before_use(std::size_t /*unit*/, NextFsdpUnit) {}
  /// Work from now on adds to the FSDP unit's gradients.
  virtual void before_gradients(std::size_t /*unit*/) {}
  /// It has been put on the stream. `last`: the microbatch adds nothing more.
  virtual void gradients_added(std::size_t /*unit*/, bool /*last*/) {}
};

}  // namespace tessera

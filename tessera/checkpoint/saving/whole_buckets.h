// The buckets of a block that is laid out like the parameters, one after the other and whole, also
// where ranks have shards of them.
#pragma once

#include <functional>

#include "tessera/engine/session.h"

namespace tessera {

/// The objects needed to read and write whole parameters; a session has all of them.
struct ParameterAccess {
  ParameterAccess(Session& session)  // NOLINT(google-explicit-constructor)
      : ParameterAccess(session.parameters(), session.context(), session.memory()) {}
  ParameterAccess(ModelParameters& all, Context& rank, Memory& scratch)
      : parameters(all), context(rank), memory(scratch) {}

  ModelParameters& parameters;
  Context& context;
  Memory& memory;  ///< for a bucket at a time
};

using BucketVisitor = std::function<void(const Bucket& bucket, const View& whole)>;

/// For reading. Ranks that share a block call it together.
void read_buckets(const ParameterAccess& access, const ParameterBlock& block,
                  const BucketVisitor& visit);

/// The visitor's changes to `whole` are stored in the block. `whole` starts with the current
/// values, or with zeros if ranks have shards.
void write_buckets(const ParameterAccess& access, const ParameterBlock& block,
                   const BucketVisitor& visit);

}  // namespace tessera

// The buckets of a block that is laid out like the parameters, one after the other and whole, also
// where ranks have shards of them.
#pragma once

#include <functional>

#include "tessera/engine/session.h"

namespace tessera {

/// What it takes to read and write whole parameters: most have a session, which has all of it.
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

/// What the visitor leaves in `whole` stays in the block; it starts with what was there, or with
/// zeros where ranks have shards.
void write_buckets(const ParameterAccess& access, const ParameterBlock& block,
                   const BucketVisitor& visit);

}  // namespace tessera

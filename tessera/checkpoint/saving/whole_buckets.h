// The buckets of a block that is laid out like the parameters, one after the other and whole, also
// where ranks have shards of them.
#pragma once

#include <functional>

#include "tessera/engine/session.h"

namespace tessera {

using BucketVisitor = std::function<void(const Bucket& bucket, const View& whole)>;

/// For reading. Ranks that share a block call it together.
void read_buckets(Session& session, const ParameterBlock& block, const BucketVisitor& visit);

/// What the visitor leaves in `whole` stays in the block; it starts with what was there, or with
/// zeros where ranks have shards.
void write_buckets(Session& session, const ParameterBlock& block, const BucketVisitor& visit);

}  // namespace tessera

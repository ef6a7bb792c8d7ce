// The kind of context parallelism of a layer.
#include "tessera/base/cp_comm_type.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

TEST(CpCommType, IsOneForAllLayersOrOneForEach) {
  const std::vector one{CpCommType::a2a};
  EXPECT_EQ(cp_comm_type_of(one, 0), CpCommType::a2a);
  EXPECT_EQ(cp_comm_type_of(one, 70), CpCommType::a2a);
  const std::vector each{CpCommType::a2a, CpCommType::p2p};
  EXPECT_EQ(cp_comm_type_of(each, 1), CpCommType::p2p);
  for (const std::int64_t layer : {-1, 2}) EXPECT_THROW(cp_comm_type_of(each, layer), Error);
}

}  // namespace
}  // namespace tessera

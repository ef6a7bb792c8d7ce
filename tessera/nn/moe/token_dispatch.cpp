#include "tessera/nn/moe/token_dispatch.h"

#include "tessera/base/check.h"
#include "tessera/nn/moe/exchange_dispatch.h"
#include "tessera/nn/moe/gather_dispatch.h"

namespace tessera {

std::unique_ptr<TokenDispatch> make_token_dispatch(std::int64_t experts, std::int64_t topk,
                                                   std::int64_t hidden, const LayerContext& layer) {
  check(experts % layer.expert_size == 0,
        "{} experts cannot be spread evenly over {} expert-parallel ranks", experts,
        layer.expert_size);
  // One rank has nothing to exchange.
  if (layer.expert_ranks() == 1)
    return std::make_unique<GatherDispatch>(experts, topk, hidden, layer);
  switch (layer.token_dispatcher) {
    case TokenDispatcher::allgather:
      return std::make_unique<GatherDispatch>(experts, topk, hidden, layer);
    case TokenDispatcher::alltoall: break;
  }
  return std::make_unique<ExchangeDispatch>(experts, topk, hidden, layer);
}

}  // namespace tessera

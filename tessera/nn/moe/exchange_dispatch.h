// All-to-all token dispatcher (--moe-token-dispatcher-type alltoall). Every rank sends each token
// to the ranks that hold its experts, and gets one row back for each of them. Without expert tensor
// parallelism these are the k n rows of its pairs. With it, T ranks hold a shard of the same
// expert; each is sent the row, and returns a part of the sum: k T n rows.
//
//   dispatch   tokens [n] -- sort --> [k T n] -- all-to-all --> by rank [S] -- sort --> by expert
//
//   combine    tokens [n] <-- sum --- [k T n] <-- all-to-all -- by rank [S] <---------- by expert
//
// The sum over a token's pairs is one sum in a fixed order, in the accumulator type: the result
// does not depend on how many ranks share the experts. Nothing is sent that is not used, but S
// depends on the data: the host reads the counts of all ranks (route waits for the stream), and a
// step on a GPU is not captured as a CUDA graph. With padding all counts are known: L P rows for
// each rank, P of each of its experts.
#pragma once

#include <vector>

#include "tessera/nn/moe/token_dispatch.h"

namespace tessera {

class ExchangeDispatch final : public TokenDispatch {
 public:
  /// Rows that this rank exchanges with each rank of the group.
  using Counts = std::vector<std::int64_t>;
  struct Saved final : TokenDispatch::Saved {
    View sent_order;      ///< i32 [k T n]: the pair of each row that is sent
    View sent_place;      ///< i32 [n, k T]: the row of each pair, and of each shard of its expert
    View received_order;  ///< i32 [most sorted rows]: the received row of each sorted one
    View received_place;  ///< i32 [most sorted rows, 1]: the reverse
    Counts sent_rows, received_rows;
    // Scratch:
    View shard;                              ///< i32 [n, k T]: shards of experts, if T > 1
    View offsets_of_ranks;                   ///< i32 [R, R L + 1]: see Kernels::sort_received
    View sent, received;                     ///< [.., hidden]
    View sent_weights, received_weights;     ///< acc [..]
    std::vector<std::int32_t> host_offsets;  ///< offsets_of_ranks on the host
  };

  ExchangeDispatch(std::int64_t experts, std::int64_t topk, std::int64_t hidden,
                   const LayerContext& layer);

  std::int64_t most_sorted_rows(const Rows& rows) const override;
  std::unique_ptr<TokenDispatch::Saved> plan_buffers(ActivationLayout& activations,
                                                     ArenaLayout& scratch,
                                                     const Rows& rows) const override;
  void route(Context&, ConstView expert, ConstView weight, std::int64_t padded,
             TokenDispatch::Saved&) const override;
  Sent send(Context&, ConstView rows, const TokenDispatch::Saved&) const override;
  void receive(Context&, View sorted, const Sent&, const TokenDispatch::Saved&) const override;
  void combine(Context&, View rows, ConstView sorted, const TokenDispatch::Saved&) const override;
  void combine_weights(Context&, View weights, ConstView sorted,
                       const TokenDispatch::Saved&) const override;

 private:
  static std::int64_t sent_count(const Saved& saved);
  ConstView shards(Context&, const ConstView& expert, const Saved&) const;
  // The rows that this rank sends, with padding or without.
  std::int64_t most_sent_rows(const Rows& rows) const;
  // Sets sent_rows, received_rows and rows.
  void set_counts(Saved&, std::int64_t padded) const;
  // Reads offsets_of_ranks and sets them.
  void read_counts(Context&, Saved&) const;
  // Rows to the ranks of their experts, and back.
  WorkHandle there(Context&, const View& received, const ConstView& sent, const Saved&) const;
  WorkHandle back(Context&, const View& sent, const ConstView& received, const Saved&) const;

  DType dtype_;
  std::int64_t topk_;
  std::int64_t hidden_;
  std::int64_t ranks_;
  std::int64_t rank_;
  std::int64_t copies_;  ///< T
  std::int64_t local_;   ///< L, experts of this rank
};

}  // namespace tessera

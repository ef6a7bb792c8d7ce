#include "tessera/comm/mpi/collectives.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/comm/call_checks.h"
#include "tessera/comm/reduce.h"

namespace tessera {
namespace {

using Part = MpiPart;

// Reductions go through memory of their own, so they go piece by piece.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

View flat(const View& x) { return x.reshape({x.numel()}); }

// One rank's part of a flat view that is divided over all ranks.
View share_of(const View& x, int rank, int size) {
  const std::int64_t begin = x.numel() * rank / size, end = x.numel() * (rank + 1) / size;
  return x.slice(0, begin, end - begin);
}

Part part(const View& x) { return {x.raw(), x.bytes()}; }

// f(r) for each rank.
template <class F>
std::vector<Part> parts(const MpiGroup& group, F&& f) {
  std::vector<Part> all;
  for (int r = 0; r < group.size(); ++r) all.push_back(f(r));
  return all;
}

// Small data is attached to the offers of the meeting, so no exchange is needed after it.
bool is_small(const ConstView& x) { return x.bytes() <= MpiGroup::kMostAttached; }

// Meets with x attached; returns the attachments of all ranks, in rank order.
std::vector<View> meet_with(MpiGroup& group, const CallOffer& offer, const ConstView& x) {
  std::vector<View> brought;
  for (std::byte* each : group.meet(offer, part(writable(x))).attachments)
    brought.emplace_back(each, x.dtype(), x.shape());
  return brought;
}

// Copies each rank's attachment, from byte `offset` on, to its place.
void take(std::span<const Part> places, const std::vector<View>& brought, std::size_t offset) {
  for (std::size_t r = 0; r < places.size(); ++r)
    copy_into(places[r], static_cast<const std::byte*>(brought[r].raw()) + offset);
}

// Views of x, one after the other, none of more than `elements` elements.
template <class F>
void for_each_piece(const View& x, std::int64_t elements, F&& f) {
  for (std::int64_t at = 0; at < x.numel(); at += elements)
    f(x.slice(0, at, std::min(elements, x.numel() - at)), at);
}

// Reduce-scatter: theirs(r) is this rank's contribution to rank r; mine = the reduction of all
// ranks' contributions to this one.
template <class F>
void reduce_shares(MpiGroup& group, const View& mine, F&& theirs, ReduceOp op,
                   const CallOffer& offer) {
  std::byte* scratch =
      group.engine().scratch(mine.bytes() * static_cast<std::size_t>(group.size()));
  std::vector<View> terms;
  for (int r = 0; r < group.size(); ++r, scratch += mine.bytes())
    terms.push_back(r == group.rank() ? theirs(r) : View(scratch, mine.dtype(), mine.shape()));
  group.exchange(parts(group, [&](int r) { return part(theirs(r)); }),
                 parts(group, [&](int r) { return part(terms[static_cast<std::size_t>(r)]); }),
                 offer);
  reduce_into(mine, terms, 0, op);
}

// All-gather: every rank's part of x goes to all.
void gather_shares(MpiGroup& group, const View& x, const CallOffer& offer) {
  const Part mine = part(share_of(x, group.rank(), group.size()));
  group.exchange(parts(group, [&](int) { return mine; }),
                 parts(group, [&](int r) { return part(share_of(x, r, group.size())); }), offer);
}

// The r-th of `size` equal parts.
Part equal_part(const ConstView& x, int r, int size) {
  const std::size_t bytes = x.bytes() / static_cast<std::size_t>(size);
  return {static_cast<std::byte*>(writable(x).raw()) + static_cast<std::size_t>(r) * bytes, bytes};
}

// Shows everybody's numbers of rows to all, and checks that they meet.
void exchange_rows(MpiGroup& group, Communicator::Rows out_rows, Communicator::Rows in_rows,
                   const CallOffer& offer) {
  const auto n = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> mine(in_rows.begin(), in_rows.end());
  mine.insert(mine.end(), out_rows.begin(), out_rows.end());
  std::vector<std::int64_t> all(n * mine.size());
  const auto part_of = [&](std::int64_t* first) { return Part{first, 2 * n * sizeof(*first)}; };
  group.exchange(
      parts(group, [&](int) { return part_of(mine.data()); }),
      parts(group, [&](int r) { return part_of(&all[2 * n * static_cast<std::size_t>(r)]); }),
      offer);
  std::vector<Communicator::Rows> ins, outs;
  for (std::size_t r = 0; r < n; ++r) {
    ins.emplace_back(&all[2 * n * r], n);
    outs.emplace_back(&all[2 * n * r + n], n);
  }
  check_exchange(ins, outs);
}

// Where each rank's rows lie.
std::vector<Part> row_parts(const View& x, Communicator::Rows rows) {
  std::vector<Part> all;
  std::int64_t at = 0;
  for (const std::int64_t count : rows) {
    all.push_back(part(x.slice(0, at, count)));
    at += count;
  }
  return all;
}

}  // namespace

// Rank r reduces the r-th part of the elements and sends it to all.
void mpi_all_reduce(MpiGroup& group, const View& x, ReduceOp op) {
  const CallOffer offer(name_of_call("all_reduce", op), x);
  if (is_small(x)) return reduce_into(x, meet_with(group, offer, x), 0, op);
  group.meet(offer);
  const auto elements = kPieceBytes / static_cast<std::int64_t>(element_size(x.dtype()));
  for_each_piece(flat(x), elements, [&](const View& piece, std::int64_t) {
    reduce_shares(
        group, share_of(piece, group.rank(), group.size()),
        [&](int r) { return share_of(piece, r, group.size()); }, op, offer);
    gather_shares(group, piece, offer);
  });
}

void mpi_reduce_scatter(MpiGroup& group, const View& out, const ConstView& in, ReduceOp op) {
  const CallOffer offer(name_of_call("reduce_scatter", op), in);
  if (is_small(in))
    return reduce_into(out, meet_with(group, offer, in), group.rank() * out.numel(), op);
  group.meet(offer);
  const View rows = writable(in).reshape({group.size(), out.numel()});
  const auto elements = std::max<std::int64_t>(
      1, kPieceBytes / group.size() / static_cast<std::int64_t>(element_size(in.dtype())));
  for_each_piece(flat(out), elements, [&](const View& piece, std::int64_t at) {
    reduce_shares(
        group, piece, [&](int r) { return rows.slice(0, r, 1).slice(1, at, piece.numel()); }, op,
        offer);
  });
}

void mpi_all_gather(MpiGroup& group, const View& out, const ConstView& in) {
  const CallOffer offer("all_gather", in);
  const std::vector<Part> places =
      parts(group, [&](int r) { return equal_part(out, r, group.size()); });
  if (is_small(in)) return take(places, meet_with(group, offer, in), 0);
  group.meet(offer);
  group.exchange(parts(group, [&](int) { return part(writable(in)); }), places, offer);
}

void mpi_all_to_all(MpiGroup& group, const View& out, const ConstView& in) {
  const CallOffer offer("all_to_all", in);
  const std::vector<Part> places =
      parts(group, [&](int r) { return equal_part(out, r, group.size()); });
  if (is_small(in))
    return take(places, meet_with(group, offer, in),
                static_cast<std::size_t>(group.rank()) * places[0].bytes);
  group.meet(offer);
  group.exchange(parts(group, [&](int r) { return equal_part(in, r, group.size()); }), places,
                 offer);
}

// The root scatters x over the ranks, which then all-gather it: no rank sends all of x to all
// ranks.
void mpi_broadcast(MpiGroup& group, const View& x, int root) {
  const CallOffer offer(fmt::format("broadcast from {}", root), x);
  const bool deals = group.rank() == root;
  const auto meeting = group.meet(offer, deals && is_small(x) ? part(x) : Part{});
  if (is_small(x)) return copy_into(part(x), meeting.attachments[static_cast<std::size_t>(root)]);
  const View all = flat(x);
  const auto share = [&](int r) { return part(share_of(all, r, group.size())); };
  group.exchange(parts(group, [&](int r) { return deals ? share(r) : Part{}; }),
                 parts(group, [&](int r) { return r == root ? share(group.rank()) : Part{}; }),
                 offer);
  gather_shares(group, all, offer);
}

void mpi_all_to_all_rows(MpiGroup& group, const View& out, Communicator::Rows out_rows,
                         const ConstView& in, Communicator::Rows in_rows) {
  const CallOffer offer("all_to_all_rows", in);
  group.meet(offer, {}, CallConsistency::row_elements);
  exchange_rows(group, out_rows, in_rows, offer);
  group.exchange(row_parts(writable(in), in_rows), row_parts(out, out_rows), offer);
}

}  // namespace tessera

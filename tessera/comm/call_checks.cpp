#include "tessera/comm/call_checks.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {
namespace {

void check_rows(const ConstView& x, Communicator::Rows rows, int size) {
  const bool good = rows.size() == static_cast<std::size_t>(size) && x.rank() >= 1 &&
                    std::all_of(rows.begin(), rows.end(), [](auto n) { return n >= 0; }) &&
                    std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == x.dim(0);
  check(good && x.is_contiguous(),
        "all_to_all_rows over {} ranks: the {} numbers of rows do not add up to those of {}", size,
        rows.size(), x);
}

}  // namespace

std::string name_of_call(const char* call, ReduceOp op) {
  return fmt::format("{} {}", call,
                     op == ReduceOp::sum   ? "sum"
                     : op == ReduceOp::max ? "max"
                                           : "avg");
}

std::int64_t row_elements(const ConstView& x) {
  std::int64_t elements = 1;
  for (int d = 1; d < x.rank(); ++d) elements *= x.dim(d);
  return elements;
}

void check_peer(const char* call, int peer, int size) {
  check(peer >= 0 && peer < size, "{}: rank {} of a group of {}", call, peer, size);
}

void check_contiguous(const ConstView& x) {
  check(x.is_contiguous(), "a collective needs contiguous memory, got {}", x);
}

void check_parts(const char* call, const ConstView& whole, const ConstView& part, int size) {
  check(whole.dtype() == part.dtype() && whole.numel() == part.numel() * size &&
            whole.is_contiguous() && part.is_contiguous(),
        "{} over {} ranks: {} is not {} times {}", call, size, whole, size, part);
}

void check_all_to_all(const ConstView& out, const ConstView& in, int size) {
  check(in.numel() % size == 0 && out.numel() == in.numel() && out.dtype() == in.dtype() &&
            out.is_contiguous(),
        "all_to_all over {} ranks: {} cannot be dealt into {}", size, in, out);
  check_contiguous(in);
}

void check_all_to_all_rows(const ConstView& out, Communicator::Rows out_rows, const ConstView& in,
                           Communicator::Rows in_rows, int size) {
  check_rows(out, out_rows, size);
  check_rows(in, in_rows, size);
  check(out.dtype() == in.dtype() && row_elements(out) == row_elements(in),
        "all_to_all_rows: rows of {} cannot become rows of {}", in, out);
}

// All pairs, so that every rank fails where one would.
void check_exchange(std::span<const Communicator::Rows> in_rows,
                    std::span<const Communicator::Rows> out_rows) {
  for (std::size_t from = 0; from < in_rows.size(); ++from)
    for (std::size_t to = 0; to < in_rows.size(); ++to)
      check(in_rows[from][to] == out_rows[to][from],
            "all_to_all_rows: rank {} sends {} rows to rank {}, which expects {}", from,
            in_rows[from][to], to, out_rows[to][from]);
}

}  // namespace tessera

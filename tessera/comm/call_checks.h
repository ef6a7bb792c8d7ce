// Argument checks of communicators before a call starts, and the names of calls in messages.
#pragma once

#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

/// "all_reduce sum"
std::string name_of_call(const char* call, ReduceOp op);

/// Elements per row: the product of all dimensions but the first.
std::int64_t row_elements(const ConstView& x);

/// Throws unless `peer` is a rank of a group of `size`.
void check_peer(const char* call, int peer, int size);

/// Throws unless x is contiguous, which collectives require.
void check_contiguous(const ConstView& x);

/// Throws unless `whole` has `size` times the elements of `part`.
void check_parts(const char* call, const ConstView& whole, const ConstView& part, int size);

/// Throws unless `in` can be divided into `size` equal parts and `out` has the same size.
void check_all_to_all(const ConstView& out, const ConstView& in, int size);

/// Throws unless the row counts of both sides add up, and rows of `in` and `out` have the same
/// size.
void check_all_to_all_rows(const ConstView& out, Communicator::Rows out_rows, const ConstView& in,
                           Communicator::Rows in_rows, int size);

/// Throws unless every rank expects as many rows as the others send. Both arguments hold [size] row
/// counts for each of [size] ranks.
void check_exchange(std::span<const Communicator::Rows> in_rows,
                    std::span<const Communicator::Rows> out_rows);

}  // namespace tessera

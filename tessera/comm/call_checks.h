// What communicators check before a call starts, and how they name calls in messages.
#pragma once

#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

/// "all_reduce sum"
std::string name_of_call(const char* call, ReduceOp op);

/// The elements of one row, that is of all dimensions but the first.
std::int64_t row_elements(const ConstView& x);

/// `peer` is a rank of a group of `size`.
void check_peer(const char* call, int peer, int size);

/// A collective can use this memory.
void check_contiguous(const ConstView& x);

/// `whole` is `size` times `part`.
void check_parts(const char* call, const ConstView& whole, const ConstView& part, int size);

/// `in` can be dealt into `size` equal parts, and `out` takes as many.
void check_all_to_all(const ConstView& out, const ConstView& in, int size);

/// The rows of both sides add up, and rows of one can become rows of the other.
void check_all_to_all_rows(const ConstView& out, Communicator::Rows out_rows, const ConstView& in,
                           Communicator::Rows in_rows, int size);

/// Every rank expects what the others send it; both take [size] ranks' [size] numbers of rows.
void check_exchange(std::span<const Communicator::Rows> in_rows,
                    std::span<const Communicator::Rows> out_rows);

}  // namespace tessera

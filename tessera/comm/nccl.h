// Ranks as processes with one GPU each, over NCCL. In a build without CUDA every function except
// nccl_built throws.
//
// Differences from other communicators. Sends are not buffered: ranks that send to each other do
// it in `grouped`. NCCL sums in an order of its own and in the type of the data (bf16 is rounded
// after every addition), and has no 16-bit integers, which are moved but not reduced.
//
// Results are repeatable from run to run: NCCL's rings and trees add in an order that follows from
// the number of ranks, the machines, the number of elements, NCCL's version and its variables
// (NCCL_*), and use no atomic additions. Two runs in which these are the same agree. NVLink
// switches that add by themselves (NVLS) do not keep an order, so make_nccl_world sets
// NCCL_NVLS_ENABLE=0 unless the environment says otherwise.
//
// NCCL itself does not notice when ranks make different calls: it hangs, or gives wrong numbers. So
// ranks show each other the first collective calls of each communicator before they make them
// (outside of captures). Unless they agree, all throw the same Error, which lists the calls by
// rank.
//
// Operations can be captured into a graph: called and waited on inside the same capture. Graphs go
// before their communicator does: NCCL keeps it until the last one is gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera {

bool nccl_built();

/// The id by which the ranks of one world find each other: created by one rank and distributed to
/// all. It also contains how many calls of each communicator the ranks compare: the value of
/// TESSERA_COMPARED_CALLS on the creating rank, or 1000.
std::vector<std::byte> make_nccl_id();

/// All ranks call it together; `id` is the same on all.
///
/// A rank that waits longer than `timeout` for the others ends with an Error that names the call,
/// its sizes and this rank: out of the call where the host waits (start, split, barrier, calls that
/// are compared), otherwise out of the next call to any communicator of this world. A rank whose
/// thread makes no such call within ten more seconds, since it waits for a stream that will never
/// be done, is ended: the message goes to standard error, the exit code is 1. For a graph the
/// timeout applies to the whole launch (Communicator::launch_with_timeout). After such an Error,
/// destroy the world.
std::shared_ptr<Communicator> make_nccl_world(Device device, int rank, int size,
                                              std::span<const std::byte> id,
                                              std::chrono::seconds timeout);

}  // namespace tessera

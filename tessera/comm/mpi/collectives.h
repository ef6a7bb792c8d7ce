// The collectives of a group of processes, as the progress thread runs them. Arguments were
// checked.
#pragma once

#include "tessera/comm/communicator.h"
#include "tessera/comm/mpi/group.h"

namespace tessera {

void mpi_all_reduce(MpiGroup& group, const View& x, ReduceOp op);
void mpi_all_gather(MpiGroup& group, const View& out, const ConstView& in);
void mpi_reduce_scatter(MpiGroup& group, const View& out, const ConstView& in, ReduceOp op);
void mpi_broadcast(MpiGroup& group, const View& x, int root);
void mpi_all_to_all(MpiGroup& group, const View& out, const ConstView& in);
void mpi_all_to_all_rows(MpiGroup& group, const View& out, Communicator::Rows out_rows,
                         const ConstView& in, Communicator::Rows in_rows);

}  // namespace tessera

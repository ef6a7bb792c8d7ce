#include "tessera/comm/mpi.h"

#include <numeric>
#include <vector>

#include "tessera/comm/mpi/communicator.h"
#include "tessera/comm/mpi/engine.h"
#include "tessera/comm/staged.h"

namespace tessera {

MpiWorld::MpiWorld(const Options& options) : engine_(std::make_shared<MpiEngine>(options)) {
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  communicator_ = make_staged_communicator(
      make_mpi_communicator(std::make_shared<MpiGroup>(engine_, std::move(all), 0)));
}

// Said here and not left to the engine's destructor: communicators may keep it.
MpiWorld::~MpiWorld() { engine_->stop(); }

int MpiWorld::rank() const { return engine_->rank(); }
int MpiWorld::size() const { return engine_->size(); }
int MpiWorld::local_rank() const { return engine_->local_rank(); }
int MpiWorld::local_size() const { return engine_->local_size(); }
std::shared_ptr<Communicator> MpiWorld::communicator() { return communicator_; }
void MpiWorld::abort(const std::string& message, int exit_code) {
  engine_->abort(message, exit_code);
}

}  // namespace tessera

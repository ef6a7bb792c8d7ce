#include "tessera/launch/cores.h"

#include <hwloc.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace tessera {
namespace {

class CpuSet {
 public:
  CpuSet() : set_(hwloc_bitmap_alloc()) {}
  ~CpuSet() { hwloc_bitmap_free(set_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
  hwloc_bitmap_t get() const { return set_; }

 private:
  hwloc_bitmap_t set_;
};

}  // namespace

CoreRange range_of_share(int cores, CoreShare share) {
  const auto border = [&](int index) {
    return static_cast<int>(static_cast<long long>(cores) * index / share.count);
  };
  return {border(share.index), border(share.index + 1)};
}

// Nothing of hwloc is found when it cannot read the machine: then there are no cores.
struct Cores::Topology {
  Topology() {
    if (hwloc_topology_init(&machine) != 0) return;
    loaded = hwloc_topology_load(machine) == 0 &&
             hwloc_get_cpubind(machine, allowed.get(), HWLOC_CPUBIND_THREAD) == 0;
    if (!loaded) return;
    hwloc_bitmap_and(allowed.get(), allowed.get(), hwloc_topology_get_allowed_cpuset(machine));
    // Without cores in its description a machine still has processing units.
    for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
      hwloc_obj_t core = nullptr;
      while ((core = hwloc_get_next_obj_by_type(machine, type, core)) != nullptr)
        if (hwloc_bitmap_intersects(core->cpuset, allowed.get()) != 0) cores.push_back(core);
      if (!cores.empty()) return;
    }
  }
  ~Topology() {
    if (machine != nullptr) hwloc_topology_destroy(machine);
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  hwloc_topology_t machine = nullptr;
  bool loaded = false;
  CpuSet allowed;
  std::vector<hwloc_obj_t> cores;
};

Cores::Cores() : topology_(std::make_unique<Topology>()) {}
Cores::~Cores() = default;

int Cores::count() const { return static_cast<int>(topology_->cores.size()); }

std::string Cores::to_string() const {
  if (!topology_->loaded) return "unknown";
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, topology_->allowed.get()) < 0) return "unknown";
  std::string list = text;
  std::free(text);  // NOLINT(cppcoreguidelines-no-malloc): hwloc allocated it
  return list;
}

std::string Cores::pin(CoreShare share, Scope scope) const {
  if (!topology_->loaded) return "hwloc cannot read what processors this machine has";
  if (share.count <= 1 || count() < share.count) return "";
  const CoreRange range = range_of_share(count(), share);
  const CpuSet mine;
  for (int i = range.begin; i < range.end; ++i)
    hwloc_bitmap_or(mine.get(), mine.get(), topology_->cores[static_cast<std::size_t>(i)]->cpuset);
  hwloc_bitmap_and(mine.get(), mine.get(), topology_->allowed.get());
  const int whose = scope == Scope::thread ? HWLOC_CPUBIND_THREAD : HWLOC_CPUBIND_PROCESS;
  return hwloc_set_cpubind(topology_->machine, mine.get(), whose) == 0 ? "" : std::strerror(errno);
}

void keep_openmp_from_tying_threads() { ::setenv("KMP_AFFINITY", "disabled", 0); }

CoreShare share_of_place(const std::vector<std::string>& places, int rank) {
  CoreShare share{0, 0};
  for (int r = 0; r < static_cast<int>(places.size()); ++r) {
    if (places[static_cast<std::size_t>(r)] != places[static_cast<std::size_t>(rank)]) continue;
    if (r < rank) ++share.index;
    ++share.count;
  }
  return share;
}

std::string machine_name() {
  std::string name;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");  // host names need not be unique
  if (std::getline(boot, name) && !name.empty()) return name;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace tessera

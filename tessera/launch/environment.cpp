#include "tessera/launch/environment.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Steps of SLURM with these numbers and above are batch scripts, interactive shells and the like.
constexpr std::int64_t kFirstSpecialStep = 0xfffffffa;
constexpr std::int64_t kLargestPort = 65535;
// A secret of random hexadecimal digits has 128 bits from 32 on; words and base64 need fewer.
constexpr std::size_t kShortestSecret = 16;

constexpr std::int64_t kMostRanks = 1 << 24;

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

class VariableReader {
 public:
  explicit VariableReader(const Variables& variables) : variables_(variables) {}

  bool has(const char* name) const { return variables_(name).has_value(); }

  std::string text(const char* name, const std::string& fallback = "") const {
    return variables_(name).value_or(fallback);
  }

  std::int64_t number(const char* name, std::int64_t least, std::int64_t most) const {
    const std::string value = text(name);
    const std::optional<std::int64_t> number = whole_number(value);
    check_input(number && *number >= least && *number <= most,
                "the environment variable {}='{}' is not a whole number from {} to {}", name, value,
                least, most);
    return *number;
  }

  int count(const char* name) const { return static_cast<int>(number(name, 1, kMostRanks)); }

  /// A number below `size`, which `size_name` gave.
  int place(const char* name, int size, const char* size_name) const {
    const auto place = static_cast<int>(number(name, 0, kMostRanks));
    check_input(place < size,
                "the environment variables contradict each other: {}={}, but {}={}, and ranks are "
                "counted from 0",
                name, place, size_name, size);
    return place;
  }

  /// All or an error that lists those that are not set.
  void need(const char* launcher, const std::vector<const char*>& names) const {
    std::string there, missing;
    for (const char* name : names) {
      std::string& list = has(name) ? there : missing;
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    check_input(missing.empty(),
                "the environment has {}, as {} sets it, but lacks {}. Start with {}, which sets "
                "all of them, or unset {} to run alone",
                there, launcher, missing, launcher, there);
  }

 private:
  const Variables& variables_;
};

bool is_torchrun(const VariableReader& read) {
  if (!read.has("RANK") && !read.has("WORLD_SIZE")) return false;
  // Scripts for mpirun often set RANK and WORLD_SIZE themselves; torchrun always leaves a run id.
  return read.has("TORCHELASTIC_RUN_ID") || !read.has("OMPI_COMM_WORLD_RANK");
}

int rendezvous_port(const VariableReader& read) {
  if (read.has("TESSERA_RENDEZVOUS_PORT"))
    return static_cast<int>(read.number("TESSERA_RENDEZVOUS_PORT", 1, kLargestPort));
  const std::int64_t port = read.number("MASTER_PORT", 1, kLargestPort);
  // torchrun itself may listen there already.
  if (read.text("TORCHELASTIC_USE_AGENT_STORE") != "True") return static_cast<int>(port);
  return static_cast<int>(port < kLargestPort ? port + 1 : port - 1);
}

void read_secret(const VariableReader& read, Environment& found) {
  if (read.has("TESSERA_RENDEZVOUS_SECRET")) {
    found.secret = read.text("TESSERA_RENDEZVOUS_SECRET");
    check_input(found.secret.size() >= kShortestSecret,
                "TESSERA_RENDEZVOUS_SECRET has {} characters, and needs at least {}: take the "
                "output of `openssl rand -hex 32`, the same for all ranks",
                found.secret.size(), kShortestSecret);
    return;
  }
  const std::string run = read.text("TORCHELASTIC_RUN_ID");
  found.secret = fmt::format("tessera\n{}\n{}\n{}\n{}", run, read.text("MASTER_ADDR"),
                             read.text("MASTER_PORT"), found.size);
  const bool no_run_id = run.empty() || run == "none";  // torchrun's word for no id
  const bool one_machine =
      found.address == "localhost" || found.address.starts_with("127.") || found.address == "::1";
  found.secret_is_weak = no_run_id && !one_machine;
}

Environment read_torchrun(const VariableReader& read) {
  read.need("torchrun", {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"});
  Environment found;
  found.launcher = Launcher::torchrun;
  found.size = read.count("WORLD_SIZE");
  found.rank = read.place("RANK", found.size, "WORLD_SIZE");
  found.local_rank = read.place("LOCAL_RANK", found.size, "WORLD_SIZE");
  if (read.has("LOCAL_WORLD_SIZE")) {
    found.local_size = read.count("LOCAL_WORLD_SIZE");
    read.place("LOCAL_RANK", found.local_size, "LOCAL_WORLD_SIZE");
  }
  if (found.size == 1) return {};
  found.address = read.text("MASTER_ADDR");
  check_input(!found.address.empty(), "MASTER_ADDR is empty; it must name rank 0's machine");
  found.port = rendezvous_port(read);
  read_secret(read, found);
  return found;
}

Environment read_mpirun(const VariableReader& read) {
  read.need("mpirun",
            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"});
  Environment found;
  found.launcher = Launcher::mpirun;
  found.size = read.count("OMPI_COMM_WORLD_SIZE");
  found.rank = read.place("OMPI_COMM_WORLD_RANK", found.size, "OMPI_COMM_WORLD_SIZE");
  found.local_rank = read.place("OMPI_COMM_WORLD_LOCAL_RANK", found.size, "OMPI_COMM_WORLD_SIZE");
  if (read.has("OMPI_COMM_WORLD_LOCAL_SIZE"))
    found.local_size = read.count("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (read.has("WORLD_SIZE") && read.has("RANK"))
    check_input(read.count("WORLD_SIZE") == found.size &&
                    read.place("RANK", found.size, "WORLD_SIZE") == found.rank,
                "mpirun started this process as rank {} of {}, but RANK={} and WORLD_SIZE={}. "
                "Unset those two, or give them mpirun's values",
                found.rank, found.size, read.text("RANK"), read.text("WORLD_SIZE"));
  return found;
}

// A step is what srun starts. What runs in a batch script or in a shell of its own sees the
// variables of the job, but nobody started the other ranks.
bool is_step(const VariableReader& read) {
  if (!read.has("SLURM_STEP_ID") || !read.has("SLURM_PROCID")) return false;
  const std::string job = read.text("SLURM_JOB_NAME");
  return read.number("SLURM_STEP_ID", 0, 0xffffffff) < kFirstSpecialStep && job != "bash" &&
         job != "interactive";
}

// Neighbouring nodes with equally many tasks.
struct NodeRun {
  std::int64_t nodes, tasks;
};

// "4(x2),3" is two nodes with 4 tasks and one with 3.
std::vector<NodeRun> tasks_per_node(const VariableReader& read, const char* name) {
  std::vector<NodeRun> runs;
  std::istringstream list(read.text(name));
  for (std::string part; std::getline(list, part, ',');) {
    const std::size_t open = part.find("(x");
    const bool repeats = open != std::string::npos && part.back() == ')';
    const auto tasks = whole_number(std::string_view(part).substr(0, open));
    const auto nodes =
        repeats ? whole_number(std::string_view(part).substr(open + 2, part.size() - open - 3))
                : std::optional<std::int64_t>(1);
    check_input(tasks && nodes && *tasks >= 1 && *nodes >= 1 && *tasks <= kMostRanks &&
                    *nodes <= kMostRanks && (open == std::string::npos || repeats),
                "the environment variable {}='{}' does not list tasks per node, as '4(x2),3' does",
                name, read.text(name));
    runs.push_back({*nodes, *tasks});
  }
  return runs;
}

// The tasks of this node by a list, if the list is about as many tasks as there are: that of a job
// says nothing about a step with other ones.
int tasks_of_node(const VariableReader& read, const char* list, int size) {
  if (!read.has(list) || !read.has("SLURM_NODEID")) return 0;
  std::int64_t node = read.number("SLURM_NODEID", 0, kMostRanks);
  std::int64_t total = 0, here = 0;
  for (const NodeRun& run : tasks_per_node(read, list)) {
    if (node >= 0 && node < run.nodes) here = run.tasks;
    node -= run.nodes;
    total += run.nodes * run.tasks;
  }
  return total == size ? static_cast<int>(here) : 0;
}

// How many tasks of the step run on this node; 0 when SLURM does not say.
int srun_local_size(const VariableReader& read, int size) {
  for (const char* list : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const int tasks = tasks_of_node(read, list, size)) return tasks;
  // What was asked for is what there is only if it fills all nodes.
  const char* nodes = read.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  if (!read.has("SLURM_NTASKS_PER_NODE") || !read.has(nodes)) return 0;
  const int tasks = read.count("SLURM_NTASKS_PER_NODE");
  return std::int64_t{tasks} * read.count(nodes) == size ? tasks : 0;
}

Environment read_srun(const VariableReader& read) {
  const char* size = read.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  read.need("srun", {"SLURM_STEP_ID", "SLURM_PROCID", size, "SLURM_LOCALID"});
  Environment found;
  found.launcher = Launcher::srun;
  found.size = read.count(size);
  found.rank = read.place("SLURM_PROCID", found.size, size);
  found.local_rank = read.place("SLURM_LOCALID", found.size, size);
  found.local_size = srun_local_size(read, found.size);
  check_input(found.local_size == 0 || found.local_rank < found.local_size,
              "the environment variables contradict each other: SLURM_LOCALID={}, but {} task(s) "
              "run on this node, and are counted from 0",
              found.local_rank, found.local_size);
  return found.size == 1 ? Environment{} : found;
}

}  // namespace

std::string to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::none: return "nobody";
    case Launcher::mpirun: return "mpirun";
    case Launcher::srun: return "srun";
    case Launcher::torchrun: return "torchrun";
  }
  return "?";
}

std::optional<std::string> process_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Environment recognise_environment(const Variables& variables) {
  const VariableReader read(variables);
  if (is_torchrun(read)) return read_torchrun(read);
  if (read.has("OMPI_COMM_WORLD_RANK") || read.has("OMPI_COMM_WORLD_SIZE"))
    return read_mpirun(read);
  if (is_step(read)) return read_srun(read);
  check_input(!read.has("PMI_SIZE") || read.count("PMI_SIZE") == 1,
              "this process was started by an mpiexec that is not Open MPI's (PMI_SIZE={}). Start "
              "it with Open MPI's mpirun, with srun, or alone with --nproc",
              read.text("PMI_SIZE"));
  return {};
}

std::optional<std::chrono::system_clock::time_point> job_end(const Variables& variables) {
  const std::string text = variables("SLURM_JOB_END_TIME").value_or("");
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || seconds <= 0)
    return std::nullopt;
  return std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
}

}  // namespace tessera

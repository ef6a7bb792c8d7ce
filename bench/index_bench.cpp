// How long it takes to build the indices of a data set of many documents, and in how much memory.
#include <fmt/core.h>
#include <sys/resource.h>

#include "bench/program.h"
#include "tessera/data/datasets/gpt_indices.h"

namespace tessera::bench {
namespace {

struct Usage {
  double cpu_seconds;
  double peak_mib;
};

Usage usage() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(used.ru_utime) + seconds(used.ru_stime),
          static_cast<double>(used.ru_maxrss) / 1024};
}

// From 1 to 1024 tokens, from a generator that is the same everywhere.
std::vector<std::int32_t> random_lengths(std::int64_t documents) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(documents));
  std::uint32_t state = 1;
  for (std::int32_t& length : lengths) {
    state = state * 1664525u + 1013904223u;
    length = static_cast<std::int32_t>(1 + (state >> 22));
  }
  return lengths;
}

void measure(const Flags& flags) {
  const std::int64_t documents = flags.number("documents", 1 << 30);
  const std::int64_t epochs = flags.number("epochs", 100);
  const std::int64_t seq_length = flags.number("seq-length", 1 << 20);
  const std::vector<std::int32_t> lengths = random_lengths(documents);
  const std::int64_t samples = (epochs * count_tokens(lengths) - 1) / seq_length;
  const Usage before = usage();
  const auto start = std::chrono::steady_clock::now();
  const GptIndices indices =
      build_gpt_indices(lengths, {{0, documents}, samples, seq_length, 1234});
  const double seconds = seconds_since(start);
  const Usage after = usage();
  const double bytes = static_cast<double>(indices.document_index.size_bytes() +
                                           indices.sample_index.bytes().size() +
                                           indices.shuffle_index.bytes().size());
  fmt::print(
      "| documents | epochs | samples | seconds | of processors | indices, MiB | peak, MiB |\n");
  fmt::print("|---:|---:|---:|---:|---:|---:|---:|\n");
  fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.0f} | {:.0f} |\n", documents, epochs,
             indices.shuffle_index.size(), seconds, after.cpu_seconds - before.cpu_seconds,
             bytes / (1 << 20), after.peak_mib);
  fmt::print("\nThe lengths themselves are {:.0f} MiB of the peak.\n", before.peak_mib);
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(argc, argv,
                                     {{"documents", "100000000", "of 1 to 1024 tokens"},
                                      {"epochs", "1", "how often they are gone through"},
                                      {"seq-length", "4096", "tokens of a sample"}},
                                     tessera::bench::measure);
}

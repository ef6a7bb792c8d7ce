// Runs a fuzz program's function over a fixed sample of inputs, with any compiler: the seeds, and
// what comes of them when bits are flipped, bytes are changed, cut out, repeated, or brought in
// from another seed. `make test` runs this; libFuzzer, which looks for new paths, runs in the
// extended test suites.
//
// usage: sample_<name> SEEDS RUNS
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) { return limit == 0 ? 0 : random() % limit; }

std::vector<std::string> seeds_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  std::vector<std::string> seeds;
  for (const std::string& name : names) seeds.push_back(tessera::read_text_file(name));
  return seeds;
}

void change(std::string& input, const std::string& other, Random& random) {
  const std::size_t at = below(random, input.size());
  const std::size_t length = below(random, std::min<std::size_t>(input.size() - at, 64) + 1);
  switch (random() % 6) {
    case 0:
      if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random() % 8));
      break;
    case 1:
      if (!input.empty()) input[at] = static_cast<char>(random());
      break;
    case 2: input.erase(at, length); break;
    case 3: input.insert(at, input.substr(at, length)); break;
    case 4: input.resize(at); break;
    default: input.insert(at, other.substr(below(random, other.size()), length)); break;
  }
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SEEDS RUNS\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> seeds = seeds_in(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", argv[1]);
    return 2;
  }
  for (const std::string& seed : seeds) run(seed);
  Random random(1);
  for (long i = 0; i < std::atol(argv[2]); ++i) {
    std::string input = seeds[below(random, seeds.size())];
    for (std::size_t changes = 1 + random() % 4; changes > 0; --changes)
      change(input, seeds[below(random, seeds.size())], random);
    run(input);
  }
  return 0;
}

#include "tessera/launch/compare.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/launch/rank.h"
#include "tessera/tensor/memory.h"

namespace tessera {
namespace {

// Gathers equally many elements of each rank, by way of memory of the device.
template <class T>
std::vector<T> gather(Communicator& world, const std::vector<T>& mine, Device device) {
  const auto count = static_cast<std::int64_t>(mine.size());
  std::vector<T> all(mine.size() * static_cast<std::size_t>(world.size()));
  Stream stream(device);
  Memory memory(device);
  const Tensor in = memory.allocate(MemoryUse::workspace, dtype_of<T>(), {count});
  const Tensor out = memory.allocate(MemoryUse::workspace, dtype_of<T>(), {world.size(), count});
  stream.api().copy_bytes(stream.native(), in.data<T>(), mine.data(), mine.size() * sizeof(T));
  world.all_gather(out, in.view(), stream)->wait(stream);
  stream.api().copy_bytes(stream.native(), all.data(), out.data<T>(), all.size() * sizeof(T));
  stream.synchronize();
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct Difference {
  std::size_t line;  // counted from 1
  std::string ours, theirs;
};

Difference first_difference(const std::string& ours, const std::string& theirs) {
  const std::vector<std::string> a = lines_of(ours), b = lines_of(theirs);
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const auto quoted = [&](const std::vector<std::string>& lines) {
    return i < lines.size() ? "'" + lines[i] + "'" : std::string("no such line");
  };
  return {i + 1, quoted(a), quoted(b)};
}

// "The first difference is in line 2: 'a' on rank 0, 'b' on ranks 1 and 3", for each of the texts
// that differ from rank 0's.
std::string list_of_differences(const std::vector<std::string>& texts,
                                const std::vector<int>& others) {
  constexpr std::size_t kMost = 4;
  std::vector<std::vector<int>> alike;
  for (const int r : others) {
    const auto group = std::ranges::find_if(alike, [&](const std::vector<int>& ranks) {
      return texts[static_cast<std::size_t>(ranks.front())] == texts[static_cast<std::size_t>(r)];
    });
    if (group != alike.end())
      group->push_back(r);
    else
      alike.push_back({r});
  }
  std::string list;
  for (std::size_t i = 0; i < std::min(alike.size(), kMost); ++i) {
    const Difference found =
        first_difference(texts[0], texts[static_cast<std::size_t>(alike[i].front())]);
    list += fmt::format("{} in line {}: {} on rank 0, {} on {}",
                        i == 0 ? "The first difference is" : ";", found.line, found.ours,
                        found.theirs, list_of_ranks(alike[i]));
  }
  return alike.size() <= kMost ? list : list + "; and so on";
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& world, const std::string& text, Device device) {
  const std::vector<std::int64_t> sizes =
      gather<std::int64_t>(world, {static_cast<std::int64_t>(text.size())}, device);
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  if (longest == 0) return std::vector<std::string>(sizes.size());
  std::vector<std::uint8_t> padded(text.begin(), text.end());
  padded.resize(longest);
  const std::vector<std::uint8_t> all = gather(world, padded, device);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * longest);
    texts.emplace_back(begin, begin + sizes[r]);
  }
  return texts;
}

void compare_across(Communicator& world, const std::string& what, const std::string& text,
                    Device device) {
  const std::vector<std::string> texts = gather_texts(world, text, device);
  std::vector<int> others;
  for (int r = 1; r < world.size(); ++r)
    if (const std::string& own = texts[static_cast<std::size_t>(r)];
        !own.empty() && own != texts[0])
      others.push_back(r);
  if (others.empty()) return;
  fail_input("the ranks were not started with the same {}: {} and rank 0 differ. {}", what,
             list_of_ranks(others), list_of_differences(texts, others));
}

}  // namespace tessera

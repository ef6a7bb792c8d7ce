#include "tessera/checkpoint/verify_checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/json_fields.h"

namespace tessera {
namespace {

constexpr std::size_t kTensorsShown = 8;

std::vector<std::string> tensors_in(const Manifest& manifest, std::size_t file, std::uint64_t begin,
                                    std::uint64_t end) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest.tensors)
    for (const TensorSlice& slice : tensor.slices) {
      const auto bytes =
          static_cast<std::uint64_t>(slice.extent.numel()) * element_size(tensor.dtype);
      if (slice.file != file || slice.at >= end || slice.at + bytes <= begin) continue;
      names.push_back(name);
      break;
    }
  return names;
}

// Reading one byte of a block compares all of it.
void check_blocks(const Checkpoint& checkpoint, std::size_t number, std::vector<Damage>& found) {
  const Manifest& manifest = checkpoint.manifest();
  const FileRecord& record = manifest.files[number];
  const auto add = [&](std::uint64_t begin, std::uint64_t end, const std::string& reason) {
    found.push_back({record.name, begin, end, reason, tensors_in(manifest, number, begin, end)});
  };
  try {
    VerifiedFile file(checkpoint.path(), record, "the file");
    for (std::uint64_t at = 0; at < record.bytes; at += kDigestBlock) {
      std::array<std::byte, 1> byte{};
      try {
        file.read(at, byte, "all of them were compared");
      } catch (const InputError& error) {
        add(at, std::min<std::uint64_t>(at + kDigestBlock, record.bytes), error.what());
      }
    }
  } catch (const InputError& error) {  // it is missing, or has another size
    add(0, record.bytes, error.what());
  }
}

std::string names_text(const std::vector<std::string>& names) {
  if (names.empty()) return "no tensor";
  std::string text = names.size() == 1 ? "tensor " : "tensors ";
  const std::size_t shown = std::min(names.size(), kTensorsShown);
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", Quoted{names[i]});
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

std::vector<Damage> find_damage(const Checkpoint& checkpoint) {
  std::vector<Damage> found;
  for (std::size_t i = 0; i < checkpoint.manifest().files.size(); ++i)
    check_blocks(checkpoint, i, found);
  return found;
}

std::string damage_text(const Checkpoint& checkpoint, const std::vector<Damage>& damage) {
  const Manifest& manifest = checkpoint.manifest();
  std::uint64_t bytes = 0;
  for (const FileRecord& file : manifest.files) bytes += file.bytes;
  if (damage.empty())
    return fmt::format("all is well: {} files, {} bytes are what was saved\n",
                       manifest.files.size(), bytes);
  std::string text;
  for (const Damage& each : damage)
    text += fmt::format("DAMAGED: '{}', bytes {} to {}: {}\n  ({})\n", each.file, each.begin,
                        each.end, names_text(each.tensors), each.reason);
  return text;
}

}  // namespace tessera

#include "tessera/launch/loaded_files.h"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>

namespace tessera {
namespace {

std::string hexadecimal(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char each : bytes) text += fmt::format("{:02x}", each);
  return text;
}

// Notes are headers, each followed by a name and contents that begin at multiples of `alignment`.
std::string id_in_notes(std::span<const unsigned char> notes, std::size_t alignment) {
  const auto padded = [&](std::size_t size) {
    return (size + alignment - 1) / alignment * alignment;
  };
  ElfW(Nhdr) header{};
  while (notes.size() >= sizeof(header)) {
    std::memcpy(&header, notes.data(), sizeof(header));
    const std::size_t contents = sizeof(header) + padded(header.n_namesz);
    const std::size_t end = contents + padded(header.n_descsz);
    if (end > notes.size()) return "";
    const char* name = reinterpret_cast<const char*>(notes.data() + sizeof(header));
    if (header.n_type == NT_GNU_BUILD_ID &&
        std::string_view(name, header.n_namesz) ==
            std::string_view(ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)))
      return hexadecimal(notes.subspan(contents, header.n_descsz));
    notes = notes.subspan(end);
  }
  return "";
}

std::string id_of(const dl_phdr_info& file) {
  for (const ElfW(Phdr) & part : std::span(file.dlpi_phdr, file.dlpi_phnum)) {
    if (part.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const unsigned char*>(file.dlpi_addr + part.p_vaddr);
    std::string id = id_in_notes({begin, part.p_memsz}, part.p_align == 8 ? 8 : 4);
    if (!id.empty()) return id;
  }
  return "";
}

std::string file_name(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  return (error ? std::filesystem::path(path) : file).filename().string();
}

int note_file(dl_phdr_info* file, std::size_t, void* files) {
  auto& all = *static_cast<std::vector<LoadedFile>*>(files);
  all.push_back({file_name(all.empty() ? "/proc/self/exe" : file->dlpi_name), id_of(*file)});
  return 0;
}

}  // namespace

std::vector<LoadedFile> loaded_files() {
  std::vector<LoadedFile> files;
  ::dl_iterate_phdr(note_file, &files);
  std::sort(files.begin() + 1, files.end(),
            [](const LoadedFile& a, const LoadedFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace tessera

// A folder with inputs for preprocessing, and the bytes that come of them.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "tessera/data/indexed/indexed_dataset.h"
#include "tessera/data/preprocess/preprocess.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

inline bool full() { return std::getenv("TESSERA_FULL") != nullptr; }

inline void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// One gzip member.
inline std::string gzip(const std::string& text) {
  z_stream stream{};
  check(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  std::string out(::deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  check(::deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

/// One zstd frame, with a checksum.
inline std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(::ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ::ZSTD_freeCCtx(context);
  return out;
}

/// Lines of objects with the keys "text" and "title", with texts of 0 to `longest` characters.
inline std::string made_up_lines(int lines, unsigned seed, std::size_t longest = 400) {
  std::mt19937 random(seed);
  std::string all;
  for (int i = 0; i < lines; ++i) {
    std::string text(random() % (longest + 1), ' ');
    for (char& each : text) each = static_cast<char>('a' + random() % 26);
    all += fmt::format("{{\"text\": \"{}\", \"title\": [\"{}\", \"\\u00e9{}\"]}}\n", text, i,
                       text.substr(0, 5));
  }
  return all;
}

class PreprocessCase : public testing::Test {
 protected:
  PreprocessCase() {
    options_.output_prefix = (folder_ / "out").string();
    options_.append_eod = true;
    options_.workers = 2;
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Writes an input file and adds it.
  void add_input(const std::string& name, const std::string& bytes) {
    write_bytes(folder_ / name, bytes);
    options_.inputs.push_back(path(name));
  }
  /// And makes it the only one.
  void input(const std::string& name, const std::string& bytes) {
    options_.inputs.clear();
    add_input(name, bytes);
  }

  /// Every file of a prefix with its bytes, by what follows the prefix.
  std::map<std::string, std::string> outputs(const std::string& prefix = "out") const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.rfind(prefix, 0) == 0)
        files[name.substr(prefix.size())] =
            entry.is_directory() ? "folder" : read_text_file(entry.path());
    }
    return files;
  }

  /// Of a run with these options into a prefix of its own.
  std::map<std::string, std::string> outputs_of(PreprocessOptions options,
                                                const std::string& prefix) const {
    options.output_prefix = path(prefix);
    preprocess(options);
    return outputs(prefix);
  }

  test::TempFolder folder_;
  PreprocessOptions options_;
};

}  // namespace tessera::test

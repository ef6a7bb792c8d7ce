// Where tokens lie: numbered sequences that can be read at any place. Reading is const and safe
// from several threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tessera {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// The number of sequences.
  virtual std::int64_t size() const = 0;
  /// Tokens in sequence i; 0 <= i < size().
  virtual std::int32_t length(std::int64_t i) const = 0;
  /// Reads tokens [offset, offset + out.size()) of sequence i.
  virtual void tokens(std::int64_t i, std::int64_t offset, std::span<std::int32_t> out) const = 0;
  /// A warning about readable but unusual contents; empty: none.
  virtual std::string warning() const { return ""; }
  /// For messages: the file, usually.
  virtual const std::string& name() const = 0;
};

/// Throws Error unless tokens [offset, offset + count) of sequence i exist.
void check_token_range(const TokenSource& source, std::int64_t i, std::int64_t offset,
                       std::size_t count);

/// Reads, and throws InputError for a token outside [0, vocab_size); 0: all are taken.
void read_in_vocabulary(const TokenSource& source, std::int64_t i, std::int64_t offset,
                        std::span<std::int32_t> out, std::int64_t vocab_size);

}  // namespace tessera

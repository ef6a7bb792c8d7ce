// Joins and splits pairs of token files, in Megatron's layout and in memory that does not grow.
// What a reader sees in the outputs, in their order, is what it sees in the inputs. A pair that was
// split and merged again has the same bytes, if the sequences of its .bin file lay back to back, as
// those of `tessera preprocess` and Megatron do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct DataCounts {
  std::int64_t documents = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
};

/// `inputs` are prefixes of pairs, or names of their .idx files, whose tokens must all be of one
/// type. InputError when the output is there and may not be replaced, or is an input.
DataCounts merge_data(const std::vector<std::string>& inputs, const std::string& output,
                      bool overwrite);

/// Makes the pairs OUTPUT_0, OUTPUT_1, ... of as many documents each as can be, one more in the
/// first ones. Of an OUTPUT that ends in _document or _mask, the ending stays at the end. The
/// numbers have leading zeros, so that a pattern lists them in their order. Returns the prefixes.
/// InputError when there are more partitions than documents.
std::vector<std::string> split_data(const std::string& input, std::int64_t partitions,
                                    const std::string& output, bool overwrite);

}  // namespace tessera

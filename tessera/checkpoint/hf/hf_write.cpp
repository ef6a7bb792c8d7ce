#include "tessera/checkpoint/hf/hf_write.h"

#include <map>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/convert.h"
#include "tessera/checkpoint/format/safetensors_writer.h"

namespace tessera {
namespace {

// Reads what a tensor, or the matrix of one expert in a stack, holds of a part.
void read_part(const HfTensor& tensor, const HfPart& part, std::int64_t expert,
               const View& destination, const ParameterReader& read) {
  Shape offset = zeros_like(part.shape);
  if (tensor.of_experts()) offset[0] = expert;
  read(part, offset, tensor.of_experts() ? stack_view(destination) : destination);
}

// Reads a part and puts its rows into the blocks of a matrix, from row `begin` of each on.
void read_in_blocks(const HfTensor& tensor, const HfPart& part, std::int64_t expert,
                    std::int64_t begin, const View& whole, const ParameterReader& read) {
  const Shape shape = tensor.part_shape(part);
  std::vector<std::byte> rows(static_cast<std::size_t>(shape.numel()) *
                              element_size(whole.dtype()));
  const View ours(rows.data(), whole.dtype(), shape);
  read_part(tensor, part, expert, ours, read);
  const std::int64_t share = shape[0] / tensor.blocks;
  const std::int64_t block_rows = whole.shape()[0] / tensor.blocks;
  for (std::int64_t block = 0; block < tensor.blocks; ++block)
    convert_into(whole.slice(0, block * block_rows + begin, share),
                 ours.slice(0, block * share, share));
}

// Puts the parts of a tensor, or of one expert in a stack, together in a matrix or vector.
void assemble_matrix(const HfTensor& tensor, std::int64_t expert, const View& whole,
                     const ParameterReader& read) {
  const View ours = tensor.transposed ? transposed_view(whole) : whole;
  std::int64_t begin = 0;
  for (const HfPart& part : tensor.parts) {
    const std::int64_t rows = tensor.part_shape(part)[0];
    if (tensor.blocks == 1)
      read_part(tensor, part, expert, ours.slice(0, begin, rows), read);
    else
      read_in_blocks(tensor, part, expert, begin, ours, read);
    begin += rows / tensor.blocks;
  }
}

// Puts a tensor together in `buffer`.
ConstView assemble_hf_tensor(const HfTensor& tensor, DType dtype, const ParameterReader& read,
                             std::vector<std::byte>& buffer) {
  buffer.resize(static_cast<std::size_t>(tensor.shape.numel()) * element_size(dtype));
  const View whole(buffer.data(), dtype, tensor.shape);
  if (tensor.stack)
    for (std::int64_t i = 0; i < tensor.shape[0]; ++i)
      assemble_matrix(tensor, i, matrix_view(whole, i), read);
  else
    assemble_matrix(tensor, tensor.expert.value_or(0), whole, read);
  return whole;
}

}  // namespace

void write_hf_tensors(const fs::path& path, std::span<const HfTensor> tensors,
                      const ParameterReader& read, const HfWriteOptions& options) {
  std::vector<SafetensorsDeclaration> declared;
  std::map<std::string, const HfTensor*> by_name;
  for (const HfTensor& tensor : tensors) {
    declared.push_back(
        {options.prefix + tensor.name, tensor.type_among(options.dtype), tensor.shape});
    by_name[declared.back().name] = &tensor;
  }
  SafetensorsWriter writer(path, std::move(declared));
  std::vector<std::byte> buffer;
  for (const SafetensorsDeclaration& tensor : writer.order())
    writer.append(assemble_hf_tensor(*by_name.at(tensor.name), tensor.dtype, read, buffer));
  writer.close();
}

void write_hf_tensors(const fs::path& path, std::span<const HfTensor> tensors,
                      const ParameterSource& source, const HfWriteOptions& options) {
  const auto read = [&](const HfPart& part, const Shape& offset, const View& destination) {
    ConstView view = source(part.name);
    check(view.shape() == part.shape, "parameter '{}': expected shape {}, got {}", part.name,
          part.shape, view.shape());
    for (int i = 0; i < view.rank(); ++i) view = view.slice(i, offset[i], destination.shape()[i]);
    convert_into(destination, view);
  };
  write_hf_tensors(path, tensors, read, options);
}

}  // namespace tessera

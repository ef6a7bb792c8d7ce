#include "tessera/checkpoint/hf_write.h"

#include <map>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/checkpoint/convert.h"
#include "tessera/checkpoint/hf_names.h"
#include "tessera/checkpoint/safetensors_writer.h"

namespace tessera {
namespace {

ConstView fetch(const ParameterSource& source, const HfPart& part) {
  const ConstView view = source(part.name);
  check(view.shape() == part.shape, "parameter '{}': expected shape {}, got {}", part.name,
        part.shape.to_string(), view.shape().to_string());
  return view;
}

// Puts the parts of a tensor side by side along `out` in `buffer` and gives the whole.
ConstView assemble(const HfTensor& tensor, DType dtype, const ParameterSource& source,
                   std::vector<std::byte>& buffer) {
  buffer.resize(static_cast<std::size_t>(tensor.shape.numel()) * size_of(dtype));
  const View whole(buffer.data(), dtype, tensor.shape);
  const View ours = tensor.transposed ? transposed_view(whole) : whole;
  std::int64_t begin = 0;
  for (const HfPart& part : tensor.parts) {
    convert_into(ours.slice(0, begin, part.shape[0]), fetch(source, part));
    begin += part.shape[0];
  }
  return whole;
}

void append(SafetensorsWriter& writer, const HfTensor& tensor, DType dtype,
            const ParameterSource& source, std::vector<std::byte>& buffer) {
  if (tensor.parts.size() > 1 || tensor.transposed) {
    writer.append(assemble(tensor, dtype, source, buffer));
    return;
  }
  const ConstView view = fetch(source, tensor.parts.front());
  if (view.dtype() == dtype) {
    writer.append(view);
    return;
  }
  buffer.resize(static_cast<std::size_t>(view.numel()) * size_of(dtype));
  const View converted(buffer.data(), dtype, view.shape());
  convert_into(converted, view);
  writer.append(converted);
}

}  // namespace

void write_hf_tensors(const fs::path& path, const ModelOptions& model, std::string_view family,
                      const ParameterSource& source, const HfWriteOptions& options) {
  const std::vector<HfTensor> tensors = hf_tensors(model, family);
  std::vector<SafetensorsDeclaration> declared;
  std::map<std::string, const HfTensor*> by_name;
  for (const HfTensor& tensor : tensors) {
    declared.push_back({options.prefix + tensor.name, options.dtype, tensor.shape});
    by_name[declared.back().name] = &tensor;
  }
  SafetensorsWriter writer(path, std::move(declared));
  std::vector<std::byte> buffer;
  for (const SafetensorsDeclaration& tensor : writer.order())
    append(writer, *by_name.at(tensor.name), options.dtype, source, buffer);
  writer.close();
}

}  // namespace tessera

#include "tessera/checkpoint/hf/hf_index.h"

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"

namespace tessera {
namespace {

// Names of files in an index come from whoever made it: they may not lead out of the folder.
void check_shard_name(const std::string& name, const std::string& what) {
  check_input(!name.empty() && name.find('/') == std::string::npos &&
                  name.find('\0') == std::string::npos && name.ends_with(".safetensors"),
              "{}: {} is not the name of a safetensors file in this folder", what, Quoted{name});
}

}  // namespace

WeightMap parse_weight_map(std::string_view text, const std::string& what) {
  const Json json = parse_json(text, what);
  check_input(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
              "{}: expected an object with a weight_map", what);
  WeightMap map;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    check_input(file.is_string(), "{}: the file of tensor {} is {} instead of a name", what,
                Quoted{tensor}, file.type_name());
    check_shard_name(file.get_ref<const std::string&>(), what);
    map[tensor] = file.get<std::string>();
  }
  return map;
}

std::string weight_map_text(const WeightMap& map, std::uint64_t bytes, std::uint64_t parameters) {
  const Json json = {{"metadata", {{"total_size", bytes}, {"total_parameters", parameters}}},
                     {"weight_map", map}};
  return json.dump(2) + "\n";
}

}  // namespace tessera

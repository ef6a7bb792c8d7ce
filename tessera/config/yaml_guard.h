// Admits only the flat part of YAML that configurations use: lines of "name: value", where a value
// is a scalar on that line, a [list, of, scalars] on that line, or a list of "- scalar" lines
// below. Nesting, anchors, aliases, tags, block scalars and several documents are refused here, by
// line, since a YAML library spends stack and time on them that a hostile file can choose.
#pragma once

#include <string_view>

namespace tessera::config {

/// InputError that names `what` and the line, unless `text` is flat.
void check_flat_yaml(std::string_view text, std::string_view what);

}  // namespace tessera::config

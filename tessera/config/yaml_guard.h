// Accepts only the flat subset of YAML that configurations use: lines of "name: value", where a
// value is a scalar on that line, a [list, of, scalars] on that line, or a list of "- scalar" lines
// below. Nesting, anchors, aliases, tags, block scalars and multiple documents are refused here, by
// line, since a hostile file can use them to make a YAML library consume unbounded stack and time.
#pragma once

#include <string_view>

namespace tessera::config {

/// InputError that names `what` and the line, unless `text` is flat.
void check_flat_yaml(std::string_view text, std::string_view what);

}  // namespace tessera::config

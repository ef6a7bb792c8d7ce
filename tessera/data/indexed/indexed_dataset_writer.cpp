#include "tessera/data/indexed/indexed_dataset_writer.h"

namespace tessera {

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenType type)
    : prefix_(prefix), base_(prefix + ".tmp"), spool_(base_, type) {}

IndexedDatasetWriter::~IndexedDatasetWriter() { remove_spool(base_); }

void IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens) {
  if (!tokens.empty()) add_sequence(tokens);
  end_document();
}

void IndexedDatasetWriter::finish() {
  spool_.finish();
  publish_spool(base_, prefix_);
}

}  // namespace tessera

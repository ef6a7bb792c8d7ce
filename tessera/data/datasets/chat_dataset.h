// Samples for supervised fine-tuning: whole conversations side by side, none of which sees another,
// with loss on what the assistant says. Behind the last one a sample is filled up with nothing.
//
//   tokens      u u u a a | u a a a | 0 0 0        u: of the user, a: of the assistant
//   labels      u u a a a | a a a a | 0 0 0        the last token of each is only a label
//   loss mask   0 0 1 1 1 | 1 1 1 1 | 0 0 0
//   positions   0 1 2 3 4 | 0 1 2 3 | 0 1 2
//   documents   0           5         9
//
// Conversations lie in a pair of files, and beside it a pair of equally long sequences of 0 and 1:
// whether a token is learned. Which conversations share a sample follows from the data and the
// length of samples alone; every epoch takes each sample once, in an order of its own that follows
// from the seed and the epoch's number. So what a run reads does not depend on how long it is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/data/datasets/chat_packing.h"
#include "tessera/data/datasets/dataset.h"
#include "tessera/data/datasets/split.h"
#include "tessera/data/indexed/token_source.h"

namespace tessera {

struct ChatDatasetSpec {
  SequenceRange range;           ///< the conversations of the split
  std::int64_t num_samples = 0;  ///< as many epochs as it takes for these; 0: one
  std::int64_t seq_length = 0;
  std::uint64_t seed = 0;
  std::int64_t vocab_size = 0;  ///< tokens outside [0, vocab_size) are refused
};

class ChatDataset : public Dataset {
 public:
  ChatDataset(std::shared_ptr<const TokenSource> tokens, std::shared_ptr<const TokenSource> mask,
              PackedChats packed, const ChatDatasetSpec& spec);

  std::int64_t size() const override { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t seq_length() const override { return spec_.seq_length; }
  void get(std::int64_t i, const SampleView& sample) const override;
  std::uint64_t identity(std::int64_t i) const override;

 private:
  std::span<const std::int32_t> members(std::int64_t i) const;
  void read(std::int64_t sequence, const SampleView& part) const;

  std::shared_ptr<const TokenSource> tokens_, mask_;
  PackedChats packed_;
  ChatDatasetSpec spec_;
  std::vector<std::int32_t> order_;  ///< samples, epoch after epoch
};

/// Packs what `lengths` says of spec.range. Conversations longer than a sample are cut, and left
/// out where nothing is learned from what is left; both are counted in a warning.
std::shared_ptr<const Dataset> make_chat_dataset(std::shared_ptr<const TokenSource> tokens,
                                                 std::shared_ptr<const TokenSource> mask,
                                                 std::span<const std::int32_t> lengths,
                                                 const ChatDatasetSpec& spec);

/// The mask beside a pair of conversations: PREFIX_mask of PREFIX_document. InputError when it is
/// not there, or not of the same lengths.
std::shared_ptr<const TokenSource> open_chat_mask(const std::string& prefix,
                                                  const TokenSource& tokens);

}  // namespace tessera

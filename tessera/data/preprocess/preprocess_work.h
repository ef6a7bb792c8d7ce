// The folder that preprocessing works in, {output_prefix}.partial, and what lets a killed run go
// on: what the run is (run.json, written once), and how far it is (state.json, replaced at every
// durable point). The outputs lie beside them as spools (token_spool.h), up to that point and
// beyond. When all are complete, they get their real names and the folder goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/folder_lock.h"
#include "tessera/base/json.h"
#include "tessera/data/indexed/token_spool.h"
#include "tessera/data/preprocess/document_encoder.h"
#include "tessera/data/preprocess/document_reader.h"
#include "tessera/options/preprocess_options.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

struct PreprocessState {
  InputPosition at;
  std::vector<SpoolPosition> outputs;  ///< of each file
  std::int64_t bytes = 0;              ///< of text read
  std::int64_t skipped = 0;            ///< documents
  std::string first_error;             ///< why the first of them was
  std::int64_t error_bytes = 0;        ///< of errors.jsonl
  bool complete = false;               ///< only the names are missing

  bool operator==(const PreprocessState&) const = default;
};

/// What must be the same for a run to go on: the inputs, by name, size and time, the options that
/// the output depends on, and the tokenizer, by what it makes of a sample.
Json describe_run(const PreprocessOptions& options, const std::vector<InputFile>& files,
                  const Tokenizer& tokenizer);

class PreprocessWork {
 public:
  /// Makes or takes up the folder and locks it. InputError when it holds a run that differs, when
  /// another process is at it, and when the outputs are there and may not be replaced.
  PreprocessWork(const PreprocessOptions& options, std::vector<OutputFile> outputs,
                 const Json& run);

  /// Where the outputs stand on the disk.
  const PreprocessState& state() const { return state_; }
  /// Whether state() is that of an earlier process.
  bool resumed() const { return resumed_; }

  const std::vector<OutputFile>& outputs() const { return outputs_; }
  /// The base of an output's spool.
  std::string base(const OutputFile& output) const { return (folder_ / output.name).string(); }
  fs::path errors_file() const { return folder_ / "errors.jsonl"; }
  /// A durable point. All that it speaks of must be durable before.
  void commit(const PreprocessState& state);
  /// Gives complete outputs their names, and removes the folder.
  void publish();
  /// Drops the point to go on from: what was done is of no use.
  void forget();
  /// After an error: whether there is a point to go on from. If not, the folder goes.
  bool keep_or_remove();
  const fs::path& folder() const { return folder_; }

  /// InputError when an output is there already and may not be replaced.
  void check_outputs() const;

 private:
  void begin(const Json& run);
  void take_up(const Json& run);
  void check_spools() const;
  void remove();

  const PreprocessOptions& options_;
  std::vector<OutputFile> outputs_;
  fs::path folder_;
  std::optional<FolderLock> lock_;
  PreprocessState state_;
  bool resumed_ = false;
};

}  // namespace tessera

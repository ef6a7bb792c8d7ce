#include "tessera/checkpoint/saving/saver.h"

#include <chrono>
#include <map>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tessera/launch/compare.h"

namespace tessera {
namespace {

constexpr std::int64_t kForegroundStaging = std::int64_t{1} << 30;

std::string file_name(SaveFile file, int rank) {
  return fmt::format("{}-{:05}.safetensors", file == SaveFile::model ? "model" : "optimizer", rank);
}

// A tensor that is there whole has its own name; "name[0:128,0:64]" is a box of it.
std::string key_of(const StagedSlice& slice) {
  const ShardPiece& piece = slice.kept.piece;
  if (piece.extent == slice.kept.global) return slice.name;
  std::string box;
  for (int i = 0; i < piece.extent.rank(); ++i)
    box += fmt::format("{}{}:{}", i == 0 ? "" : ",", piece.offset[i],
                       piece.offset[i] + piece.extent[i]);
  return fmt::format("{}[{}]", slice.name, box);
}

// What a rank wrote, until there is a manifest.
std::string part_name(int rank) { return fmt::format("part-{:05}.json", rank); }

void take_part(Manifest& manifest, const fs::path& file) {
  check(fs::exists(file),
        "'{}' was written, but rank 0 does not find it: --save must be a folder that all machines "
        "share",
        file.string());
  add_part(manifest, read_text_file(file));
  std::error_code ignored;
  fs::remove(file, ignored);
}

// Ranks of another machine may write to a disk of their own under the same name.
void check_is_here(const fs::path& file, std::uint64_t bytes) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  check(!error && size == bytes,
        "'{}' was written with {} bytes, but rank 0 finds {}: --save must be a folder that all "
        "machines share",
        file.string(), bytes, error ? error.message() : fmt::format("{}", size));
}

// A foreground save of a GPU's state needs no more memory than keeps the copies long.
Staging::Limit staging_limit(const SaveOptions& options) {
  if (options.background) return {options.staging_bytes};
  return {kForegroundStaging, false};
}

// Writes one rank's files, one after the other.
class SliceFiles {
 public:
  SliceFiles(const std::vector<StagedSlice>& slices, const fs::path& staging_dir, int rank)
      : slices_(slices), staging_dir_(staging_dir), rank_(rank) {}

  void append(std::size_t number, const ConstView& data) {
    const StagedSlice& slice = slices_[number];
    if (!writer_ || slice.file != file_) open(slice.file);
    TensorRecord& record = part_.tensors[slice.name];
    record.dtype = data.dtype();
    record.shape = slice.kept.global;
    record.slices.push_back({part_.files.size(), writer_->position(), slice.kept.piece.offset,
                             slice.kept.piece.extent});
    writer_->append(data);
  }

  Manifest finish() {
    close();
    return std::move(part_);
  }

 private:
  void open(SaveFile file) {
    close();
    file_ = file;
    std::vector<SafetensorsDeclaration> declared;
    for (const StagedSlice& slice : slices_)
      if (slice.file == file)
        declared.push_back({key_of(slice), slice.block.memory.dtype(), slice.kept.piece.extent});
    writer_.emplace(staging_dir_ / file_name(file, rank_), std::move(declared),
                    SafetensorsMetadata{}, SafetensorsWriter::Order::given);
  }

  void close() {
    if (writer_) part_.files.push_back(writer_->close());
    writer_.reset();
  }

  const std::vector<StagedSlice>& slices_;
  fs::path staging_dir_;
  int rank_;
  SaveFile file_ = SaveFile::model;
  std::optional<SafetensorsWriter> writer_;
  Manifest part_;
};

Json layout_of(const SessionOptions& options, int ranks) {
  const ParallelOptions& p = options.parallel;
  return {{"ranks", ranks},
          {"tensor", p.tensor},
          {"grid", p.tensor_2d},
          {"pipeline", p.pipeline},
          {"chunks", options.pipeline.chunks},
          {"data", p.data},
          {"expert", p.expert},
          {"expert_tensor", p.expert_tensor_size()},
          {"sharding", static_cast<int>(p.sharding)}};
}

}  // namespace

Saver::Saver(Session& session, const SaveOptions& options, Say say)
    : session_(session),
      options_(options),
      say_(std::move(say)),
      staging_(session, options.with_optimizer, staging_limit(options),
               options.background || session.options().device.kind != DeviceKind::cpu) {
  if (options.background) staging_.prepare();
}

Saver::~Saver() {
  if (work_.valid()) work_.wait();
}

Saver::Outcome Saver::guarded(const std::function<std::string()>& work) {
  try {
    return {true, work()};
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

void Saver::start(std::function<std::string()> work) {
  work_ = std::async(std::launch::async, [work = std::move(work)] { return guarded(work); });
}

bool Saver::busy() const {
  return work_.valid() && work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

std::optional<std::string> Saver::share(const Outcome& own) {
  Communicator& world = session_.context().mesh.world();
  const std::string text = (own.good ? "+" : "-") + own.text;
  const std::vector<std::string> all = gather_texts(world, text, session_.options().device);
  std::string why;
  int failed = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].front() == '+' || failed++ > 0) continue;
    why = world.size() == 1 ? "" : fmt::format("rank {}: ", r);
    why += all[r].substr(1);
  }
  if (failed == 0) return all.front().substr(1);
  if (failed > 1) why += fmt::format(" (and {} ranks more)", failed - 1);
  if (world.rank() == 0) {
    remove_staging_dir(staging_dir_);
    say_(fmt::format("ERROR: the checkpoint of iteration {} was not saved: {}. {}",
                     contents_.iteration, why,
                     committed_ >= 0 ? fmt::format("That of iteration {} stays", committed_)
                                     : "What was saved before stays"));
  }
  stage_ = Stage::idle;
  return std::nullopt;
}

void Saver::request(const SaveContents& contents) {
  finish();  // one at a time
  contents_ = contents;
  Communicator& world = session_.context().mesh.world();
  stage_ = Stage::writing;
  const std::optional<std::string> staging_dir = share(guarded([&] {
    if (world.rank() > 0) return std::string();
    staging_dir_ = create_staging_dir(options_.folder, contents.iteration);
    return staging_dir_.string();
  }));
  if (!staging_dir) return;
  staging_dir_ = *staging_dir;
  staging_.reset();
  start([this] { return write_slices(staging_dir_); });
  staging_.fill();
  if (!options_.background) return finish();
  // Waves wait for a rank's own disk, and others must not wait for that in calls with a limit.
  if (options_.staging_bytes > 0) world.barrier_without_timeout();
}

std::string Saver::write_slices(const fs::path& staging_dir) {
  const int rank = session_.context().mesh.world().rank();
  std::error_code exists;
  fs::create_directory(staging_dir, exists);  // another machine may not see yet that it was made
  SliceFiles files(staging_.slices(), staging_dir, rank);
  staging_.drain([&](std::size_t slice, const ConstView& data) { files.append(slice, data); });
  Manifest part = files.finish();
  if (rank == 0)
    for (const auto& [name, text] : contents_.files)
      part.files.push_back(write_digested(staging_dir / name, text));
  // A file, since it may be too long for a message: rank 0 reads it when all have written.
  write_digested(staging_dir / part_name(rank), part_text(part));
  return "";
}

void Saver::advance() {
  if (stage_ == Stage::writing)
    begin_commit();
  else if (stage_ == Stage::committing)
    end_commit();
}

void Saver::begin_commit() {
  if (!share(work_.get())) return;
  stage_ = Stage::committing;
  if (session_.context().mesh.world().rank() == 0) start([this] { return commit(); });
}

std::string Saver::commit() {
  const int ranks = session_.context().mesh.world().size();
  Manifest manifest;
  manifest.iteration = contents_.iteration;
  manifest.state = contents_.state;
  manifest.layout = layout_of(session_.options(), ranks).dump();
  for (int rank = 0; rank < ranks; ++rank) take_part(manifest, staging_dir_ / part_name(rank));
  for (const FileRecord& file : manifest.files) check_is_here(staging_dir_ / file.name, file.bytes);
  const std::string problem = commit_staging_dir(staging_dir_, options_.folder, manifest);
  if (!problem.empty()) return "warning: " + problem;  // and no older one goes
  try {
    remove_surplus(options_.folder, options_.retention, manifest.iteration);
    return "";
  } catch (const std::exception& error) {
    return fmt::format("warning: an old checkpoint stays: {}", error.what());
  }
}

void Saver::end_commit() {
  const std::optional<std::string> warning = share(work_.valid() ? work_.get() : Outcome{});
  if (!warning) return;
  stage_ = Stage::idle;
  committed_ = contents_.iteration;
  if (session_.context().mesh.world().rank() > 0) return;
  if (!warning->empty()) say_(*warning);
  say_(fmt::format("saved checkpoint of iteration {} to '{}'", committed_,
                   options_.folder.string()));
}

void Saver::finish() {
  while (pending()) {
    if (work_.valid()) work_.wait();
    session_.context().mesh.world().barrier_without_timeout();
    advance();
  }
}

}  // namespace tessera

#include "tessera/verify/verify.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "tessera/base/rng.h"
#include "tessera/checkpoint/saving/whole_tensors.h"
#include "tessera/engine/train_step.h"
#include "tessera/launch/compare.h"
#include "tessera/verify/reference_model.h"

namespace tessera {
namespace {

using Values = std::vector<double>;

struct NamedValues {
  std::string name;
  Values values;
};

// All that two layouts must agree on.
struct Run {
  Values losses;
  Values norms;
  std::vector<NamedValues> weights;    // as initialised
  std::vector<NamedValues> gradients;  // of the first step, in the order of the backward pass
  std::vector<NamedValues> updated;    // weights after the last step
  std::vector<NamedValues> stream;     // a fingerprint of the residual stream after each sublayer
};

std::vector<NamedValues> values_of(Session& session, const std::vector<ParameterBlock>& blocks) {
  const WholeTensors whole(session, blocks);
  std::vector<NamedValues> all;
  DescribedModel model(session.options());
  for (const Parameter* parameter : model.parameters())
    for (const ShardedTensor& tensor : parameter->tensors()) {
      const auto found = whole.by_name().find(tensor.name);
      if (found == whole.by_name().end()) continue;  // not on this rank
      NamedValues& each = all.emplace_back();
      each.name = tensor.name;
      each.values.resize(static_cast<std::size_t>(tensor.global.numel()));
      std::memcpy(each.values.data(), found->second.raw(), found->second.bytes());
    }
  return all;
}

// The same samples in every layout: tokens are functions of sample and position.
HostBatch make_batch(const SessionOptions& options, std::int64_t first_sample) {
  HostBatch batch;
  batch.batch = options.shape.batch;
  batch.seq_length = options.shape.seq;
  for (std::int64_t b = 0; b < batch.batch; ++b) {
    const RngKey key = rng_key(options.seed, RngPurpose::test, std::to_string(first_sample + b));
    const auto token = [&](std::int64_t i) {
      return static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i)) %
                                       static_cast<std::uint64_t>(options.model.vocab_size));
    };
    for (std::int64_t s = 0; s < batch.seq_length; ++s) {
      batch.tokens.push_back(token(s));
      batch.labels.push_back(token(s + 1));
      batch.loss_mask.push_back(token(s + 2) % 7 == 0 ? 0.0f : 1.0f);
      batch.positions.push_back(static_cast<std::int32_t>(s));
    }
    batch.sample_numbers.push_back(first_sample + b);
  }
  return batch;
}

// The sum of squares of each point of the residual stream, by its place in the model.
class Fingerprints {
 public:
  /// From now on records the last microbatch of every forward pass.
  explicit Fingerprints(Session& session) : session_(session) {
    for (std::size_t chunk = 0; chunk < session.runners().size(); ++chunk)
      session.runners()[chunk].set_forward_callback([this, chunk](int microbatch, int buffer) {
        if (microbatch == session_.options().microbatches - 1) take(chunk, buffer);
      });
  }
  ~Fingerprints() {
    for (StageRunner& runner : session_.runners()) runner.set_forward_callback(nullptr);
  }
  Fingerprints(const Fingerprints&) = delete;
  Fingerprints& operator=(const Fingerprints&) = delete;

  /// Those of all stages, over all ranks that hold a part, in the order of the model.
  std::vector<NamedValues> gathered() {
    std::string own;
    for (Point& point : points_) {
      sum_shards(point);
      own += fmt::format("{} {} {}\n", point.place, point.name,
                         std::bit_cast<std::uint64_t>(point.sum));
    }
    std::map<int, NamedValues> sorted;
    for (const std::string& text : gather_texts(session_.context().mesh.pipeline(), own))
      read(text, sorted);
    std::vector<NamedValues> all;
    for (auto& [place, print] : sorted) all.push_back(std::move(print));
    return all;
  }

 private:
  struct Point {
    int place;
    std::string name;
    int shards;
    double sum;
  };

  void take(std::size_t chunk, int buffer) {
    constexpr int kMostPoints = 1000;  // of a stage
    const int rank = session_.context().mesh.pipeline().rank();
    int place = kMostPoints * stage_at(session_.pipeline_shape(), {rank, static_cast<int>(chunk)});
    for (const StageRunner::ResidualSnapshot& point :
         session_.runners()[chunk].saved_residuals(buffer)) {
      double sum = 0;
      for (std::int64_t i = 0; i < point.rows.numel(); ++i) {
        const double x = point.rows.data<double>()[i];
        sum += x * x;
      }
      points_.push_back({place++, point.name, point.shards, sum});
    }
  }

  void sum_shards(Point& point) {
    const View view(&point.sum, DType::f64, {1});
    Stream& stream = session_.context().stream;
    const Mesh& mesh = session_.context().mesh;
    if (point.shards > 1) mesh.tensor().all_reduce(view, ReduceOp::sum, stream)->wait(stream);
    mesh.context().all_reduce(view, ReduceOp::sum, stream)->wait(stream);
    // The last microbatch of all is the last rank's.
    Communicator& data = mesh.data();
    data.broadcast(view, data.size() - 1, stream)->wait(stream);
  }

  static void read(const std::string& text, std::map<int, NamedValues>& to) {
    std::istringstream lines(text);
    NamedValues print;
    int place = 0;
    for (std::uint64_t bits = 0; lines >> place >> print.name >> bits;) {
      print.values = {std::bit_cast<double>(bits)};
      to[place] = print;
    }
  }

  Session& session_;
  std::vector<Point> points_;
};

Run run_of(const SessionOptions& options, const VerifyOptions& verify, bool layout) {
  Run run;
  const ParallelOptions& p = options.parallel;
  run_ranks(p.ranks(), 1, [&](Rank& rank) {
    Rank mine = rank;
    if (layout && verify.world) mine.world = verify.world(rank.rank, rank.world);
    Session session(options, mine);
    Run own;
    own.weights = values_of(session, session.parameters().values());
    HostBatch batch;
    // Data-parallel ranks take microbatches in turn.
    std::int64_t sample = session.context().mesh.data().rank() * options.shape.batch;
    const auto next = [&]() -> const HostBatch& {
      batch = make_batch(options, sample);
      sample += options.shape.batch * options.parallel.data;
      return batch;
    };
    std::optional<Fingerprints> prints(std::in_place, session);
    for (int i = 0; i < verify.steps; ++i) {
      const StepResult step = compute_gradients(session, next, LossAverage::per_microbatch);
      own.losses.push_back(step.loss);
      own.norms.push_back(step.grad_norm);
      if (i == 0) {
        own.gradients = values_of(session, session.parameters().grads());
        std::reverse(own.gradients.begin(), own.gradients.end());
        own.stream = prints->gathered();
        prints.reset();
      }
      apply_gradients(session, 1e-2);
    }
    own.updated = values_of(session, session.parameters().values());
    if (rank.rank == 0) run = std::move(own);
  });
  return run;
}

double norm_of(const Values& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum);
}

double norm_of(const std::vector<NamedValues>& all) {
  double sum = 0;
  for (const NamedValues& each : all) sum += norm_of(each.values) * norm_of(each.values);
  return std::sqrt(sum);
}

// ||a - b|| / max(||b||, 1e-6 of the whole).
double error_of(const Values& a, const Values& b, double whole) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum) / std::max(norm_of(b), 1e-6 * whole);
}

class Comparison {
 public:
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  // In the order given; the first that differs is the one that is reported.
  void compare(const std::string& what, const std::vector<NamedValues>& got,
               const std::vector<NamedValues>& want, double tolerance) {
    const double whole = norm_of(want);
    double worst = 0;
    if (got.size() != want.size())
      differ(fmt::format("{}: {} of them in the layout, {} on one rank", what, got.size(),
                         want.size()));
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
      if (got[i].name != want[i].name || got[i].values.size() != want[i].values.size()) {
        differ(fmt::format("{}: '{}' in the layout, '{}' on one rank", what, got[i].name,
                           want[i].name));
        continue;
      }
      const double error = error_of(got[i].values, want[i].values, whole);
      worst = std::isnan(error) ? error : std::max(worst, error);
      if (!(error <= tolerance))
        differ(fmt::format("{} '{}' differs by {:.1e} relatively (allowed {:.0e})", what,
                           got[i].name, error, tolerance));
    }
    result_.log.push_back(
        fmt::format("{:<16} {:>5} compared, largest difference {:.1e}, allowed {:.0e}", what,
                    want.size(), worst, tolerance));
  }
  void compare(const std::string& what, const std::vector<NamedValues>& got,
               const std::vector<NamedValues>& want) {
    compare(what, got, want, tolerance_);
  }
  VerifyResult result() && { return std::move(result_); }

 private:
  void differ(const std::string& text) {
    if (result_.same) result_.where = text;
    result_.same = false;
  }

  double tolerance_;
  VerifyResult result_;
};

std::vector<NamedValues> by_step(const char* name, const Values& values) {
  std::vector<NamedValues> steps;
  for (std::size_t i = 0; i < values.size(); ++i)
    steps.push_back({fmt::format("{} of step {}", name, i + 1), {values[i]}});
  return steps;
}

// The points that both runs kept, in the order of the model: under full recompute each stage keeps
// the inputs of its own groups of layers.
std::vector<NamedValues> kept_in_both(const std::vector<NamedValues>& own,
                                      const std::vector<NamedValues>& other) {
  std::set<std::string_view> names;
  for (const NamedValues& each : other) names.insert(each.name);
  std::vector<NamedValues> both;
  for (const NamedValues& each : own)
    if (names.contains(each.name)) both.push_back(each);
  return both;
}

}  // namespace

VerifyResult verify_layout(const SessionOptions& layout, const VerifyOptions& options) {
  const Run got = run_of(layout, options, true);
  const Run want = run_of(on_one_rank(layout), options, false);
  Comparison comparison(options.tolerance);
  comparison.compare("initial weight", got.weights, want.weights, 0.0);
  if (layout.recompute.granularity == RecomputeGranularity::full)
    comparison.compare("output of", kept_in_both(got.stream, want.stream),
                       kept_in_both(want.stream, got.stream));
  else
    comparison.compare("output of", got.stream, want.stream);
  comparison.compare("gradient", got.gradients, want.gradients);
  comparison.compare("loss", by_step("loss", got.losses), by_step("loss", want.losses));
  comparison.compare("gradient norm", by_step("norm", got.norms), by_step("norm", want.norms));
  comparison.compare("updated weight", got.updated, want.updated);
  return std::move(comparison).result();
}

}  // namespace tessera

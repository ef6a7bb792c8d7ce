// Attention as graphs of the cuDNN frontend: one node (sdpa or sdpa_backward), planned once per
// problem and cached. A problem is everything that a plan depends on: shapes, strides, types, mask
// and scale.
#include "tessera/kernels/cuda/attention/cudnn_attention.h"

// Graphs are never written to files, so the frontend needs no JSON.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {
namespace {

namespace fe = cudnn_frontend;
using std::int64_t;
using Plan = fe::graph::Graph;  // a graph of operations that carries its plan
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

// The tensors of a call, in this order; forward has the first five. The cuDNN uid of each is its
// number plus one.
enum Argument { kQ, kK, kV, kO, kLse, kDO, kDq, kDk, kDv, kArguments };
constexpr std::size_t kForwardArguments = kLse + 1;

// The mask in cuDNN's terms: a diagonal band of the score matrix, aligned to its top left corner
// (query 0 stands at key 0) or to its bottom right one (the last query stands at the last key).
struct Band {
  bool causal = false;
  bool bottom_right = false;
  int64_t window = 0;  ///< 0: none
  auto operator<=>(const Band&) const = default;
};

// The key of the plan cache. The scale is compared by its bits: it is part of the graph.
struct Problem {
  bool backward = false;
  DType dtype = DType::bf16;
  int64_t s = 0, t = 0, b = 0, h = 0, k = 0;  ///< queries, keys, batch, heads, key heads
  int64_t d = 0, e = 0;                       ///< head sizes of queries and keys, and of values
  Band band;
  std::uint32_t scale = 0;                                   ///< the bits of the f32
  std::array<std::array<int64_t, 3>, kArguments> strides{};  ///< of rows, samples and heads
  auto operator<=>(const Problem&) const = default;
};

// The message names the version, since support for shapes and masks differs between versions.
void check_cudnn(cudnnStatus_t status, const char* call) {
  check(status == CUDNN_STATUS_SUCCESS, "cuDNN {}: {} failed: {}", cudnnGetVersion(), call,
        cudnnGetErrorString(status));
}

// The band of a spec, or nothing if cuDNN cannot express the mask or if it leaves a query without
// keys, whose result cuDNN does not define as ours (o = 0, lse = -inf).
std::optional<Band> band_of(int64_t s, int64_t t, const AttentionSpec& spec) {
  // `ahead` is the local index of the key at the position of query 0. If it is at least t - 1,
  // every key is at or before every query, and the causal mask has no effect.
  const int64_t ahead = spec.q_start - spec.kv_start;  // the key that stands where query 0 does
  const bool causal = spec.causal && ahead < t - 1;    // else all keys come before all queries
  // A window has no effect unless the last query is at least `window` positions after key 0.
  const bool windowed = spec.window > 0 && ahead + s > spec.window;
  // Chunks have no effect if all positions here are in one.
  const int64_t first = std::min(spec.q_start, spec.kv_start);
  const int64_t end = std::max(spec.q_start + s, spec.kv_start + t);
  if (spec.chunk > 0 && first / spec.chunk != (end - 1) / spec.chunk) return std::nullopt;
  if (!causal && !windowed) return Band{};
  // Any other offset of the diagonal has no alignment in cuDNN.
  const bool bottom_right = ahead != 0;
  if (bottom_right && (ahead != t - s || s > t)) return std::nullopt;
  // With more queries than keys a window would leave some queries without keys.
  if (windowed && s > t) return std::nullopt;
  return Band{causal, bottom_right, windowed ? spec.window : 0};
}

// Whether cuDNN's attention supports these shapes at all. A single query is a step of generation,
// where the number of keys changes with every call: planning each would cost a second per token.
bool takes(const Shape& q, const Shape& k, const Shape& v, DType dtype) {
  const auto fits = [](int64_t d) { return d % 8 == 0 && d <= 256; };
  return (dtype == DType::bf16 || dtype == DType::f16) && fits(q[3]) && fits(v[3]) && q[0] > 1 &&
         q.numel() > 0 && k.numel() > 0 && v.numel() > 0;
}

// The problem of a call, or nothing if cuDNN does not support it.
std::optional<Problem> problem_of(std::span<const ConstView> tensors, const AttentionSpec& spec) {
  const ConstView& q = tensors[kQ];
  const ConstView& k = tensors[kK];
  const ConstView& v = tensors[kV];
  // Not expressible here: our dropout masks (cuDNN has its own generator), soft cap, and documents.
  if (!takes(q.shape(), k.shape(), v.shape(), q.dtype()) || spec.dropout.p > 0 ||
      spec.softcap > 0 || spec.documents)
    return std::nullopt;
  // A mask that is not a diagonal band goes to our own kernels.
  const std::optional<Band> band = band_of(q.dim(0), k.dim(0), spec);
  if (!band) return std::nullopt;
  Problem problem{tensors.size() > kForwardArguments,
                  q.dtype(),
                  q.dim(0),
                  k.dim(0),
                  q.dim(1),
                  q.dim(2),
                  k.dim(2),
                  q.dim(3),
                  v.dim(3),
                  *band,
                  std::bit_cast<std::uint32_t>(static_cast<float>(spec.scale)),
                  {}};
  // lse is contiguous and f32; all other tensors bring their strides and must be 16-byte aligned.
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i == kLse) continue;
    if (!has_aligned_rows(tensors[i])) return std::nullopt;
    for (int j = 0; j < 3; ++j)
      problem.strides[i][static_cast<std::size_t>(j)] = tensors[i].stride(j);
  }
  return problem;
}

// Describes an argument: ours is [rows, B, heads, D], cuDNN's [B, heads, rows, D]. Only strides
// differ, no data moves.
void place(fe::graph::Tensor_attributes& tensor, const Problem& p, Argument argument) {
  const bool of_keys = argument == kK || argument == kV || argument == kDk || argument == kDv;
  const bool of_values = argument == kV || argument == kO || argument == kDO || argument == kDv;
  const auto& [row, sample, head] = p.strides[argument];
  tensor.set_uid(argument + 1)
      .set_dim({p.b, of_keys ? p.k : p.h, of_keys ? p.t : p.s, of_values ? p.e : p.d})
      .set_stride({sample, head, row, 1})
      .set_data_type(p.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF);
}

// Our lse [B, H, S] is cuDNN's softmax statistics tensor [B, H, S, 1]: the natural log-sum-exp.
void place_lse(fe::graph::Tensor_attributes& tensor, const Problem& p) {
  tensor.set_uid(kLse + 1)
      .set_dim({p.b, p.h, p.s, 1})
      .set_stride({p.h * p.s, p.s, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

TensorPtr input(Plan& graph, const Problem& p, Argument argument) {
  fe::graph::Tensor_attributes tensor;
  place(tensor, p, argument);
  return graph.tensor(tensor);
}

// Scale and mask, the same for both directions. The right bound 0 is the causal diagonal; the left
// bound is exclusive, so it equals our window, which counts the query's own position.
template <class Attributes>
Attributes attributes_of(const Problem& p) {
  Attributes attributes;
  attributes.set_name("attention").set_attn_scale(std::bit_cast<float>(p.scale));
  attributes.set_diagonal_alignment(p.band.bottom_right ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                        : fe::DiagonalAlignment_t::TOP_LEFT);
  if (p.band.causal) attributes.set_diagonal_band_right_bound(0);
  if (p.band.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(p.band.window));
  return attributes;
}

// o and lse from q, k and v.
void add_forward(Plan& graph, const Problem& p) {
  auto attributes = attributes_of<fe::graph::SDPA_attributes>(p);
  // Statistics are the lse that the backward pass needs.
  attributes.set_generate_stats(true);
  const auto [o, lse] =
      graph.sdpa(input(graph, p, kQ), input(graph, p, kK), input(graph, p, kV), attributes);
  place(o->set_output(true), p, kO);
  place_lse(lse->set_output(true), p);
}

// dq, dk and dv. The backward pass recomputes the probabilities from lse.
void add_backward(Plan& graph, const Problem& p, bool deterministic) {
  auto attributes = attributes_of<fe::graph::SDPA_backward_attributes>(p);
  attributes.set_deterministic_algorithm(deterministic);
  fe::graph::Tensor_attributes lse;
  place_lse(lse, p);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(input(graph, p, kQ), input(graph, p, kK), input(graph, p, kV),
                          input(graph, p, kO), input(graph, p, kDO), graph.tensor(lse), attributes);
  place(dq->set_output(true), p, kDq);
  place(dk->set_output(true), p, kDk);
  place(dv->set_output(true), p, kDv);
}

// Builds the graph of a problem: 16-bit tensors, f32 arithmetic.
void describe_graph(Plan& graph, const Problem& p, bool deterministic) {
  graph.set_io_data_type(p.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (p.backward)
    add_backward(graph, p, deterministic);
  else
    add_forward(graph, p);
}

// Allows lazy loading of kernel code while a stream is being captured into a CUDA graph. By default
// the driver forbids that in the capturing thread; it is safe here, since planning does not touch a
// stream.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

constexpr std::size_t round_up(int64_t n, int64_t step) {
  return static_cast<std::size_t>((n + step - 1) / step * step);
}

// A deterministic backward pass keeps the gradients of all scores in the workspace: 16-bit [B, H,
// S, T], rounded up to whole tiles of 64 x 128.
std::size_t score_bytes(const Shape& q, int64_t keys) {
  return static_cast<std::size_t>(q[1] * q[2]) * round_up(q[0], 64) * round_up(keys, 128) * 2;
}

// Above 8 GiB of score gradients our own kernels, which keep none, take over. Fewer keys than
// queries count as many, so whether cuDNN is used at all depends on the number of queries alone.
constexpr std::size_t kMostScoreBytes = std::size_t{8} << 30;
bool has_too_many_scores(const Shape& q, int64_t keys) {
  return score_bytes(q, std::max(q[0], keys)) > kMostScoreBytes;
}

}  // namespace

// The cache of plans and the cuDNN handle of one device. Not thread-safe: one rank, one stream.
class CudnnAttention::Plans {
 public:
  Plans(Device device, bool deterministic) : deterministic_(deterministic) {
    check_op(cudaSetDevice(device.index), "attention");
    cudnnHandle_t handle = nullptr;
    check_cudnn(cudnnCreate(&handle), "cudnnCreate");
    handle_.reset(handle);
  }

  // Runs a call, or returns false without side effects if cuDNN does not support it.
  bool run(Stream& stream, const char* op, std::span<const ConstView> tensors,
           const AttentionSpec& spec, const Workspace& workspace) {
    // Cheap checks first: no plan is made for a call that cuDNN cannot take.
    const std::optional<Problem> problem = problem_of(tensors, spec);
    if (!problem) return false;
    const cudaStream_t on = native(stream, op);
    Plan* plan = find(*problem, workspace.bytes());
    if (!plan) return false;
    check_cudnn(cudnnSetStream(handle_.get(), on), "cudnnSetStream");
    // Addresses by uid order; execute() changes no tensor that the graph only reads.
    std::array<void*, kArguments> addresses{};
    for (std::size_t i = 0; i < tensors.size(); ++i)
      addresses[i] = const_cast<void*>(tensors[i].raw());
    const auto status = plan->execute(handle_.get(), addresses.data(),
                                      static_cast<int>(tensors.size()), workspace.raw());
    check(status.is_good(), "{}: cuDNN {} failed: {}", op, cudnnGetVersion(), status.err_msg);
    return true;
  }

 private:
  struct Destroy {
    void operator()(cudnnContext* handle) const noexcept { cudnnDestroy(handle); }
  };

  // The plan of a problem, made at first use; null if cuDNN has none that fits. Failures are
  // cached, too.
  Plan* find(const Problem& problem, std::size_t workspace_bytes) {
    // A null pointer is stored for a problem that cuDNN refused, so it is planned and logged once.
    const auto [at, fresh] = plans_.try_emplace(problem);
    if (fresh) at->second = make(problem, workspace_bytes);
    return at->second.get();
  }

  // HeurMode A lets cuDNN's heuristic choose the engine. A plan that needs more workspace than was
  // reserved is refused, and the call goes to our own kernels.
  std::unique_ptr<Plan> make(const Problem& p, std::size_t workspace_bytes) {
    // Planning loads kernels and may happen inside a capture, at the first call of a problem.
    const RelaxedCapture relaxed;
    auto plan = std::make_unique<Plan>();
    describe_graph(*plan, p, deterministic_);
    const auto status = plan->build(handle_.get(), {fe::HeurMode_t::A});
    const int64_t bytes = status.is_good() ? plan->get_workspace_size() : 0;
    if (status.is_good() && bytes <= static_cast<int64_t>(workspace_bytes)) return plan;
    const std::string why =
        status.is_good()
            ? fmt::format("it asks for {} bytes of workspace and gets {}", bytes, workspace_bytes)
            : status.err_msg;
    // Logged once per problem: the result of make() is cached even if it is null.
    log_warning("cuDNN {} is not used for attention {} of {} queries, {} keys, heads of {}: {}",
                cudnnGetVersion(), p.backward ? "backward" : "forward", p.s, p.t, p.d, why);
    return nullptr;
  }

  bool deterministic_;
  std::unique_ptr<cudnnContext, Destroy> handle_;
  std::map<Problem, std::unique_ptr<Plan>> plans_;
};

CudnnAttention::CudnnAttention(Device device, bool deterministic)
    : plans_(std::make_unique<Plans>(device, deterministic)), deterministic_(deterministic) {}

CudnnAttention::~CudnnAttention() = default;

// A formula, since memory is laid out before strides and masks are known and a plan costs a second.
// The terms are those of cuDNN's Hopper engines:
//
//   delta, f32 [B, H, S]
//   not deterministic: the sum of dq, f32 [B, H, S, D]
//   deterministic: the gradients of all scores, 16-bit [B, H, S, T]
//   grouped-query heads: dk and dv of each query head, 16-bit [B, H, T, D] and [B, H, T, E]
//
// Plans add a few hundred bytes, covered by kSmallParts. More keys never need less, since a call
// may have fewer than were planned for.
std::size_t CudnnAttention::workspace_bytes(const Shape& q, const Shape& k, const Shape& v,
                                            DType dtype) const {
  constexpr std::size_t kSmallParts = 64 << 10;
  if (!takes(q, k, v, dtype)) return 0;
  // rows: queries of all heads and samples. `shared`: dk and dv before the sum over the query heads
  // of a group.
  const auto rows = static_cast<std::size_t>(q[0] * q[1] * q[2]);
  const auto d = static_cast<std::size_t>(q[3]);
  const std::size_t shared =
      q[2] == k[2] ? 0 : static_cast<std::size_t>(k[0] * q[1] * q[2] * (q[3] + v[3])) * 2;
  if (!deterministic_) return rows * 4 * (1 + d) + shared + kSmallParts;
  if (has_too_many_scores(q, q[0])) return kSmallParts;
  return rows * 4 + std::min(score_bytes(q, k[0]), kMostScoreBytes) + shared + kSmallParts;
}

bool CudnnAttention::supports(const ConstView& q, const ConstView& k, const ConstView& v) {
  return takes(q.shape(), k.shape(), v.shape(), q.dtype());
}

bool CudnnAttention::forward(Stream& stream, const View& o, const View& lse, const ConstView& q,
                             const ConstView& k, const ConstView& v, const AttentionSpec& spec,
                             const Workspace& workspace) {
  const std::array<ConstView, kForwardArguments> tensors{q, k, v, o, lse};
  return plans_->run(stream, "attention_forward", tensors, spec, workspace);
}

bool CudnnAttention::backward(Stream& stream, const View& dq, const View& dk, const View& dv,
                              const ConstView& d_o, const ConstView& q, const ConstView& k,
                              const ConstView& v, const ConstView& o, const ConstView& lse,
                              const AttentionSpec& spec, const Workspace& workspace) {
  if (deterministic_ && has_too_many_scores(q.shape(), k.dim(0))) return false;
  const std::array<ConstView, kArguments> tensors{q, k, v, o, lse, d_o, dq, dk, dv};
  return plans_->run(stream, "attention_backward", tensors, spec, workspace);
}

}  // namespace tessera::cuda

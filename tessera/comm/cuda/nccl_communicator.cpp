// Collectives and messages as NCCL's calls.
#include "tessera/comm/cuda/nccl_communicator.h"

#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/call_checks.h"
#include "tessera/comm/cuda/nccl_comparison.h"
#include "tessera/comm/cuda/nccl_messages.h"
#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {
namespace {

ncclDataType_t type_to_reduce(const char* call, DType dtype) {
  switch (dtype) {
    case DType::f64: return ncclFloat64;
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    case DType::i64: return ncclInt64;
    case DType::i32: return ncclInt32;
    case DType::u8: return ncclUint8;
    case DType::i16: break;
  }
  fail("{}: NCCL cannot reduce {}, which it does not support: reduce it as i32", call,
       to_string(dtype));
}

// NCCL computes the mean by scaling every term, which is wrong for integers.
ncclRedOp_t operator_of(const char* call, ReduceOp op, DType dtype) {
  check(op != ReduceOp::avg || is_float(dtype), "{}: no mean of {}, which is not a float type",
        call, to_string(dtype));
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclAvg;
}

class NcclWork final : public Work {
 public:
  explicit NcclWork(std::shared_ptr<NcclLane> lane, EventHandle done = nullptr)
      : lane_(std::move(lane)), done_(std::move(done)) {}

  void wait(Stream& stream) override {
    check(done_ != nullptr, "a send or recv was waited on inside its group: wait after it");
    lane_->world().check_alive();
    check_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream.native()), done_.get(), 0),
               "cudaStreamWaitEvent");
  }
  void set_done(EventHandle done) { done_ = std::move(done); }

 private:
  std::shared_ptr<NcclLane> lane_;
  EventHandle done_;
};

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(std::shared_ptr<NcclLane> lane)
      : lane_(std::move(lane)), comparison_(*lane_) {}
  ~NcclCommunicator() override {
    lane_.reset();  // first, since cudaFree waits for operations in flight
    cudaFree(barrier_element_);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return lane_->rank(); }
  int size() const override { return lane_->size(); }
  bool capturable() const override { return true; }
  bool receives_ahead() const override { return true; }
  void launch_with_timeout(Stream& stream, const std::function<void()>& launch) override {
    lane_->watch({"a captured step", {}}, static_cast<cudaStream_t>(stream.native()), launch);
  }

  WorkHandle all_reduce(View x, ReduceOp op, Stream& stream) override {
    check_contiguous(x);
    const auto type = type_to_reduce("all_reduce", x.dtype());
    const auto how = operator_of("all_reduce", op, x.dtype());
    const auto calls = [&](ncclComm_t comm, cudaStream_t on) {
      return ncclAllReduce(x.raw(), x.raw(), count(x), type, how, comm, on);
    };
    return collective({"all_reduce", x, x.bytes()}, stream, calls, op);
  }

  WorkHandle all_gather(View out, ConstView in, Stream& stream) override {
    check_parts("all_gather", out, in, size());
    const auto calls = [&](ncclComm_t comm, cudaStream_t on) {
      return ncclAllGather(in.raw(), out.raw(), in.bytes(), kNcclBytes, comm, on);
    };
    return collective({"all_gather", out, out.bytes()}, stream, calls);
  }

  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream& stream) override {
    check_parts("reduce_scatter", in, out, size());
    const auto type = type_to_reduce("reduce_scatter", in.dtype());
    const auto how = operator_of("reduce_scatter", op, in.dtype());
    const auto calls = [&](ncclComm_t comm, cudaStream_t on) {
      return ncclReduceScatter(in.raw(), out.raw(), count(out), type, how, comm, on);
    };
    return collective({"reduce_scatter", in, in.bytes()}, stream, calls, op);
  }

  WorkHandle broadcast(View x, int root, Stream& stream) override {
    check_peer("broadcast", root, size());
    check_contiguous(x);
    const auto calls = [&](ncclComm_t comm, cudaStream_t on) {
      return ncclBroadcast(x.raw(), x.raw(), x.bytes(), kNcclBytes, root, comm, on);
    };
    return collective({"broadcast", x, x.bytes(), root}, stream, calls);
  }

  WorkHandle all_to_all(View out, ConstView in, Stream& stream) override {
    check_all_to_all(out, in, size());
    const std::size_t part = in.bytes() / static_cast<std::size_t>(size());
    std::vector<NcclMessage> messages;
    for (int r = 0; r < size(); ++r) {
      const std::size_t at = static_cast<std::size_t>(r) * part;
      add_message(messages, {true, bytes_of(in) + at, part, r});
      add_message(messages, {false, bytes_of(out) + at, part, r});
    }
    return collective({"all_to_all", in, in.bytes()}, stream, exchange_of(messages));
  }

  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream& stream) override {
    check_all_to_all_rows(out, out_rows, in, in_rows, size());
    const std::size_t row = static_cast<std::size_t>(row_elements(in)) * element_size(in.dtype());
    std::vector<NcclMessage> messages;
    std::size_t from = 0, to = 0;
    for (int r = 0; r < size(); ++r) {
      const std::size_t sent = static_cast<std::size_t>(in_rows[static_cast<std::size_t>(r)]) * row;
      const std::size_t got = static_cast<std::size_t>(out_rows[static_cast<std::size_t>(r)]) * row;
      add_message(messages, {true, bytes_of(in) + from, sent, r});
      add_message(messages, {false, bytes_of(out) + to, got, r});
      from += sent;
      to += got;
    }
    return collective({"all_to_all_rows", in, total_bytes(messages)}, stream, exchange_of(messages),
                      std::nullopt, CallConsistency::row_elements);
  }

  WorkHandle send(ConstView x, int to, Stream& stream) override {
    return message("send", x, {true, bytes_of(x), x.bytes(), to}, stream);
  }
  WorkHandle recv(View x, int from, Stream& stream) override {
    return message("recv", x, {false, bytes_of(x), x.bytes(), from}, stream);
  }

  void grouped(const std::function<void()>& calls) override {
    check(!group_, "a group of sends and recvs inside another one");
    Group group{std::make_shared<NcclWork>(lane_), {}, nullptr};
    group_ = &group;
    try {
      calls();
    } catch (...) {
      group_ = nullptr;
      throw;
    }
    group_ = nullptr;
    if (group.messages.empty()) return;
    const NcclOperation what{"a group of sends and recvs", {}, total_bytes(group.messages)};
    group.work->set_done(lane_->run(what, group.stream, exchange_of(group.messages)));
  }

  void barrier() override { meet({"barrier", {}}); }
  void barrier_without_timeout() override { meet({"barrier_without_timeout", {}, 0, -1, true}); }

  std::shared_ptr<Communicator> split(int colour, int key) override {
    const NcclOperation what{"split", {}};
    check_outside_group(what.call);
    comparison_.compare(what, nullptr, [&] { return CallOffer(what.call); });
    std::shared_ptr<NcclLane> part = lane_->split(colour, key);
    if (part->size() == 1) return make_self_communicator();
    return make_nccl_communicator(std::move(part));
  }

 private:
  struct Group {
    std::shared_ptr<NcclWork> work;
    std::vector<NcclMessage> messages;
    cudaStream_t stream;
  };

  // Waits on the host until all ranks have come.
  void meet(const NcclOperation& what) {
    check_outside_group(what.call);
    comparison_.compare(what, nullptr, [&] { return CallOffer(what.call); });
    if (barrier_element_ == nullptr) {
      check_cuda(cudaMalloc(&barrier_element_, sizeof(int)), "cudaMalloc");
      check_cuda(cudaMemset(barrier_element_, 0, sizeof(int)), "cudaMemset");
    }
    const EventHandle done = lane_->run(what, nullptr, [&](ncclComm_t comm, cudaStream_t on) {
      return ncclAllReduce(barrier_element_, barrier_element_, 1, ncclInt32, ncclSum, comm, on);
    });
    lane_->wait(what, done);
  }

  static std::size_t count(const ConstView& x) { return static_cast<std::size_t>(x.numel()); }
  static std::byte* bytes_of(const ConstView& x) {
    return static_cast<std::byte*>(const_cast<void*>(x.raw()));
  }

  void check_outside_group(const char* call) const {
    check(group_ == nullptr, "{} inside a group, which holds sends and recvs alone", call);
  }

  cudaStream_t native(const char* call, Stream& stream) const {
    check(stream.device() == Device{DeviceKind::cuda, lane_->world().device()},
          "{}: this communicator moves memory of cuda:{}, but the stream is of {}", call,
          lane_->world().device(), to_string(stream.device()));
    return static_cast<cudaStream_t>(stream.native());
  }

  WorkHandle run(const NcclOperation& what, Stream& stream, const NcclLane::Calls& calls) {
    check_outside_group(what.call);
    cudaStream_t after = native(what.call, stream);
    if (what.bytes == 0) return nothing_;
    return std::make_shared<NcclWork>(lane_, lane_->run(what, after, calls));
  }

  // A call that all ranks of the group make together. `what.peer` is the root, if there is one.
  WorkHandle collective(const NcclOperation& what, Stream& stream, const NcclLane::Calls& calls,
                        std::optional<ReduceOp> op = std::nullopt,
                        CallConsistency consistency = CallConsistency::elements) {
    check_outside_group(what.call);
    const auto offer = [&] {
      const std::string call = op               ? name_of_call(what.call, *op)
                               : what.peer >= 0 ? fmt::format("{} from {}", what.call, what.peer)
                                                : what.call;
      return CallOffer(call, what.data);
    };
    comparison_.compare(what, native(what.call, stream), offer, consistency);
    return run(what, stream, calls);
  }

  // Good while the messages are.
  static NcclLane::Calls exchange_of(const std::vector<NcclMessage>& messages) {
    return [&](ncclComm_t comm, cudaStream_t on) { return exchange(messages, comm, on); };
  }

  WorkHandle message(const char* call, const ConstView& x, const NcclMessage& message,
                     Stream& stream) {
    check_peer(call, message.peer, size());
    check_contiguous(x);
    if (group_ == nullptr)
      return run({call, x, x.bytes(), message.peer}, stream, exchange_of({message}));
    if (message.bytes == 0) return nothing_;
    cudaStream_t after = native(call, stream);
    check(group_->messages.empty() || group_->stream == after,
          "{}: all sends and recvs of a group are called with one stream", call);
    group_->stream = after;
    group_->messages.push_back(message);
    return group_->work;
  }

  std::shared_ptr<NcclLane> lane_;
  NcclComparison comparison_;
  Group* group_ = nullptr;  // while `grouped` collects
  void* barrier_element_ = nullptr;
  WorkHandle nothing_ = std::make_shared<Work>();
};

}  // namespace

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclLane> lane) {
  return std::make_shared<NcclCommunicator>(std::move(lane));
}

}  // namespace tessera

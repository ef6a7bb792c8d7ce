// Collectives and messages as NCCL's calls. What is only moved travels as bytes, whatever its type.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/call_checks.h"
#include "tessera/comm/cuda/nccl_lane.h"
#include "tessera/comm/nccl.h"
#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {
namespace {

constexpr ncclDataType_t kBytes = ncclUint8;

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
  fail("{}: NCCL cannot reduce {}, which it does not know: reduce it as i32", call, name_of(dtype));
}

// The mean is made by scaling every addend: not what is meant by the mean of whole numbers.
ncclRedOp_t operator_of(const char* call, ReduceOp op, DType dtype) {
  check(op != ReduceOp::avg || is_float(dtype), "{}: no mean of {}, which is not a float type",
        call, name_of(dtype));
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclAvg;
}

// Part of an exchange: bytes from or to one other rank.
struct Message {
  bool sends;
  void* data;
  std::size_t bytes;
  int peer;
};

// All of them at once, so that no order of theirs can make two ranks wait for each other.
ncclResult_t exchange(const std::vector<Message>& messages, ncclComm_t comm, cudaStream_t stream) {
  ncclResult_t result = ncclGroupStart();
  for (const Message& m : messages) {
    const ncclResult_t one = m.sends ? ncclSend(m.data, m.bytes, kBytes, m.peer, comm, stream)
                                     : ncclRecv(m.data, m.bytes, kBytes, m.peer, comm, stream);
    if (result == ncclSuccess && one != ncclInProgress) result = one;
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

std::size_t total_bytes(const std::vector<Message>& messages) {
  std::size_t total = 0;
  for (const Message& m : messages) total += m.bytes;
  return total;
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
  explicit NcclCommunicator(std::shared_ptr<NcclLane> lane) : lane_(std::move(lane)) {}
  ~NcclCommunicator() override {
    lane_.reset();  // first, since cudaFree waits for what is under way
    cudaFree(barrier_element_);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return lane_->rank(); }
  int size() const override { return lane_->size(); }
  bool capturable() const override { return true; }
  void watched(Stream& stream, const std::function<void()>& launch) override {
    lane_->watch({"a captured step", {}}, static_cast<cudaStream_t>(stream.native()), launch);
  }

  WorkHandle all_reduce(View x, ReduceOp op, Stream& stream) override {
    check_contiguous(x);
    const auto type = type_to_reduce("all_reduce", x.dtype());
    const auto how = operator_of("all_reduce", op, x.dtype());
    return run({"all_reduce", x, x.bytes()}, stream, [&](ncclComm_t comm, cudaStream_t on) {
      return ncclAllReduce(x.raw(), x.raw(), count(x), type, how, comm, on);
    });
  }

  WorkHandle all_gather(View out, ConstView in, Stream& stream) override {
    check_parts("all_gather", out, in, size());
    return run({"all_gather", out, out.bytes()}, stream, [&](ncclComm_t comm, cudaStream_t on) {
      return ncclAllGather(in.raw(), out.raw(), in.bytes(), kBytes, comm, on);
    });
  }

  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream& stream) override {
    check_parts("reduce_scatter", in, out, size());
    const auto type = type_to_reduce("reduce_scatter", in.dtype());
    const auto how = operator_of("reduce_scatter", op, in.dtype());
    return run({"reduce_scatter", in, in.bytes()}, stream, [&](ncclComm_t comm, cudaStream_t on) {
      return ncclReduceScatter(in.raw(), out.raw(), count(out), type, how, comm, on);
    });
  }

  WorkHandle broadcast(View x, int root, Stream& stream) override {
    check_peer("broadcast", root, size());
    check_contiguous(x);
    return run({"broadcast", x, x.bytes(), root}, stream, [&](ncclComm_t comm, cudaStream_t on) {
      return ncclBroadcast(x.raw(), x.raw(), x.bytes(), kBytes, root, comm, on);
    });
  }

  WorkHandle all_to_all(View out, ConstView in, Stream& stream) override {
    check_all_to_all(out, in, size());
    const std::size_t part = in.bytes() / static_cast<std::size_t>(size());
    std::vector<Message> messages;
    for (int r = 0; r < size(); ++r) {
      const std::size_t at = static_cast<std::size_t>(r) * part;
      add(messages, {true, bytes_of(in) + at, part, r});
      add(messages, {false, bytes_of(out) + at, part, r});
    }
    return run_exchange({"all_to_all", in, in.bytes()}, messages, stream);
  }

  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream& stream) override {
    check_all_to_all_rows(out, out_rows, in, in_rows, size());
    const std::size_t row = static_cast<std::size_t>(row_elements(in)) * size_of(in.dtype());
    std::vector<Message> messages;
    std::size_t from = 0, to = 0;
    for (int r = 0; r < size(); ++r) {
      const std::size_t sent = static_cast<std::size_t>(in_rows[static_cast<std::size_t>(r)]) * row;
      const std::size_t got = static_cast<std::size_t>(out_rows[static_cast<std::size_t>(r)]) * row;
      add(messages, {true, bytes_of(in) + from, sent, r});
      add(messages, {false, bytes_of(out) + to, got, r});
      from += sent;
      to += got;
    }
    return run_exchange({"all_to_all_rows", in, total_bytes(messages)}, messages, stream);
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
    group.work->set_done(lane_->run(what, group.stream, [&](ncclComm_t comm, cudaStream_t on) {
      return exchange(group.messages, comm, on);
    }));
  }

  void barrier() override {
    check_outside_group("barrier");
    if (barrier_element_ == nullptr) {
      check_cuda(cudaMalloc(&barrier_element_, sizeof(int)), "cudaMalloc");
      check_cuda(cudaMemset(barrier_element_, 0, sizeof(int)), "cudaMemset");
    }
    const NcclOperation what{"barrier", {}};
    const EventHandle done = lane_->run(what, nullptr, [&](ncclComm_t comm, cudaStream_t on) {
      return ncclAllReduce(barrier_element_, barrier_element_, 1, ncclInt32, ncclSum, comm, on);
    });
    lane_->wait(what, done);
  }

  std::shared_ptr<Communicator> split(int colour, int key) override {
    check_outside_group("split");
    const std::shared_ptr<NcclLane> part = lane_->split(colour, key);
    if (part->size() == 1) return make_self_communicator();
    return std::make_shared<NcclCommunicator>(part);
  }

 private:
  struct Group {
    std::shared_ptr<NcclWork> work;
    std::vector<Message> messages;
    cudaStream_t stream;
  };

  static std::size_t count(const ConstView& x) { return static_cast<std::size_t>(x.numel()); }
  static std::byte* bytes_of(const ConstView& x) {
    return static_cast<std::byte*>(const_cast<void*>(x.raw()));
  }
  // What has no bytes is not sent, and the other side, which knows it too, does not wait for it.
  static void add(std::vector<Message>& messages, const Message& message) {
    if (message.bytes > 0) messages.push_back(message);
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

  WorkHandle run_exchange(const NcclOperation& what, const std::vector<Message>& messages,
                          Stream& stream) {
    return run(what, stream,
               [&](ncclComm_t comm, cudaStream_t on) { return exchange(messages, comm, on); });
  }

  WorkHandle message(const char* call, const ConstView& x, const Message& message, Stream& stream) {
    check_peer(call, message.peer, size());
    check_contiguous(x);
    if (group_ == nullptr)
      return run_exchange({call, x, x.bytes(), message.peer}, {message}, stream);
    if (message.bytes == 0) return nothing_;
    cudaStream_t after = native(call, stream);
    check(group_->messages.empty() || group_->stream == after,
          "{}: all sends and recvs of a group are called with one stream", call);
    group_->stream = after;
    group_->messages.push_back(message);
    return group_->work;
  }

  std::shared_ptr<NcclLane> lane_;
  Group* group_ = nullptr;  // while `grouped` collects
  void* barrier_element_ = nullptr;
  WorkHandle nothing_ = std::make_shared<Work>();
};

}  // namespace

bool nccl_built() { return true; }

std::vector<std::byte> make_nccl_id() {
  ncclUniqueId id{};
  const ncclResult_t result = ncclGetUniqueId(&id);
  check(result == ncclSuccess, "NCCL cannot make an id: {}. {}", ncclGetErrorString(result),
        ncclGetLastError(nullptr));
  std::vector<std::byte> bytes(sizeof(id));
  std::memcpy(bytes.data(), &id, sizeof(id));
  return bytes;
}

std::shared_ptr<Communicator> make_nccl_world(Device device, int rank, int size,
                                              std::span<const std::byte> id,
                                              std::chrono::seconds timeout) {
  check_input(cuda_device_count() > 0, "{}", why_no_cuda());
  check_input(device.kind == DeviceKind::cuda && device.index < cuda_device_count(),
              "NCCL moves memory of GPUs, but rank {} is to compute on {}, and this process can "
              "use {} GPU(s)",
              rank, to_string(device), cuda_device_count());
  check(rank >= 0 && rank < size, "rank {} of a world of {}", rank, size);
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);  // see nccl.h; NCCL reads it when its first world starts
  const auto lane =
      std::make_shared<NcclLane>(std::make_shared<NcclWorld>(device.index, rank, size, timeout));
  lane->connect(id);
  return std::make_shared<NcclCommunicator>(lane);
}

}  // namespace tessera

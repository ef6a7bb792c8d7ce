#include "tessera/comm/staged.h"

#include <algorithm>
#include <utility>

#include "tessera/comm/call_checks.h"

namespace tessera {
namespace {

// The rank's memory on the host that copies to and from its device start from. It only grows.
class Staging {
 public:
  Staging() = default;
  ~Staging() { release(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Memory for this many bytes; its previous contents are lost.
  std::byte* reserve(Stream& stream, std::size_t bytes) {
    if (bytes <= bytes_) return data_;
    release();
    api_ = device_api(stream.device());
    data_ = static_cast<std::byte*>(api_->allocate_host(bytes));
    bytes_ = bytes;
    return data_;
  }

 private:
  void release() {
    if (data_ != nullptr) api_->free_host(data_);
    data_ = nullptr;
    bytes_ = 0;
  }

  std::shared_ptr<DeviceApi> api_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

bool on_host(const Stream& stream) { return stream.device().kind == DeviceKind::cpu; }

// A view without memory has the shape of a scalar.
std::size_t bytes_of(const ConstView& x) { return x ? x.bytes() : 0; }

// Nothing if either is missing.
void copy(Stream& stream, const View& to, const ConstView& from) {
  const std::size_t bytes = std::min(bytes_of(to), bytes_of(from));
  if (bytes > 0) stream.api().copy_bytes(stream.native(), to.raw(), from.raw(), bytes);
}

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::shared_ptr<Communicator> inner, std::shared_ptr<Staging> staging)
      : inner_(std::move(inner)), staging_(std::move(staging)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  WorkHandle all_reduce(View x, ReduceOp op, Stream& stream) override {
    if (on_host(stream)) return inner_->all_reduce(x, op, stream);
    return in_place(x, stream, [&](View host) { return inner_->all_reduce(host, op, host_); });
  }

  WorkHandle all_gather(View out, ConstView in, Stream& stream) override {
    if (on_host(stream)) return inner_->all_gather(out, in, stream);
    return from_to(out, in, stream, [&](View host_out, ConstView host_in) {
      return inner_->all_gather(host_out, host_in, host_);
    });
  }

  WorkHandle reduce_scatter(View out, ConstView in, ReduceOp op, Stream& stream) override {
    if (on_host(stream)) return inner_->reduce_scatter(out, in, op, stream);
    return from_to(out, in, stream, [&](View host_out, ConstView host_in) {
      return inner_->reduce_scatter(host_out, host_in, op, host_);
    });
  }

  WorkHandle broadcast(View x, int root, Stream& stream) override {
    if (on_host(stream)) return inner_->broadcast(x, root, stream);
    return in_place(x, stream, [&](View host) { return inner_->broadcast(host, root, host_); });
  }

  WorkHandle all_to_all(View out, ConstView in, Stream& stream) override {
    if (on_host(stream)) return inner_->all_to_all(out, in, stream);
    return from_to(out, in, stream, [&](View host_out, ConstView host_in) {
      return inner_->all_to_all(host_out, host_in, host_);
    });
  }

  WorkHandle all_to_all_rows(View out, Rows out_rows, ConstView in, Rows in_rows,
                             Stream& stream) override {
    if (on_host(stream)) return inner_->all_to_all_rows(out, out_rows, in, in_rows, stream);
    return from_to(out, in, stream, [&](View host_out, ConstView host_in) {
      return inner_->all_to_all_rows(host_out, out_rows, host_in, in_rows, host_);
    });
  }

  WorkHandle send(ConstView x, int to, Stream& stream) override {
    if (on_host(stream)) return inner_->send(x, to, stream);
    return from_to({}, x, stream,
                   [&](View, ConstView host) { return inner_->send(host, to, host_); });
  }

  WorkHandle recv(View x, int from, Stream& stream) override {
    if (on_host(stream)) return inner_->recv(x, from, stream);
    return from_to(x, {}, stream,
                   [&](View host, ConstView) { return inner_->recv(host, from, host_); });
  }

  void grouped(const std::function<void()>& calls) override { inner_->grouped(calls); }
  void barrier() override { inner_->barrier(); }
  void barrier_without_timeout() override { inner_->barrier_without_timeout(); }

  std::shared_ptr<Communicator> split(int colour, int key) override {
    std::shared_ptr<Communicator> part = inner_->split(colour, key);
    if (part->size() == 1) return make_self_communicator();
    return std::make_shared<StagedCommunicator>(std::move(part), staging_);
  }

 private:
  template <class Call>
  WorkHandle in_place(const View& x, Stream& stream, const Call& call) {
    check_contiguous(x);
    const View host(staging_->reserve(stream, x.bytes()), x.dtype(), x.shape());
    copy(stream, host, x);
    stream.synchronize();
    call(host)->wait(host_);
    copy(stream, x, host);
    stream.synchronize();
    return done_;
  }

  // The input lies at the start of the staging memory, the output behind it on the next cache line;
  // either may be missing.
  template <class Call>
  WorkHandle from_to(const View& out, const ConstView& in, Stream& stream, const Call& call) {
    check_contiguous(in);
    check_contiguous(out);
    const std::size_t behind = (bytes_of(in) + 63) / 64 * 64;
    std::byte* data = staging_->reserve(stream, behind + bytes_of(out));
    const View host_in(data, in.dtype(), in.shape());
    const View host_out(data + behind, out.dtype(), out.shape());
    copy(stream, host_in, in);
    stream.synchronize();
    call(host_out, host_in)->wait(host_);
    copy(stream, out, host_out);
    stream.synchronize();
    return done_;
  }

  std::shared_ptr<Communicator> inner_;
  std::shared_ptr<Staging> staging_;  // shared with the groups that are split off
  Stream host_{Device{}};
  WorkHandle done_ = std::make_shared<Work>();
};

}  // namespace

std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> inner) {
  return std::make_shared<StagedCommunicator>(std::move(inner), std::make_shared<Staging>());
}

}  // namespace tessera

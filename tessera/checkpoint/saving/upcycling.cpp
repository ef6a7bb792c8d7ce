#include "tessera/checkpoint/saving/upcycling.h"

#include <string_view>

#include "tessera/base/dtype.h"
#include "tessera/checkpoint/format/convert.h"

namespace tessera {
namespace {

constexpr std::string_view kExperts = ".mlp.experts.";
constexpr std::string_view kRouter = ".mlp.router.";
constexpr std::string_view kDown = ".mlp.experts.down.";  // weight and bias

Shape of_one(const Shape& experts) { return Shape(experts.dims().subspan(1)); }

// `of`: a matrix or a vector on the host.
void multiply(const View& of, double scale) {
  const View part = of.rank() == 1 ? stack_view(of) : of;
  dispatch_float(part.dtype(), "upcycling", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    T* values = part.data<T>();
    for (std::int64_t i = 0; i < part.dim(0); ++i)
      for (std::int64_t j = 0; j < part.dim(1); ++j) {
        T& value = values[i * part.stride(0) + j * part.stride(1)];
        value = static_cast<T>(static_cast<A>(value) * static_cast<A>(scale));
      }
  });
}

}  // namespace

std::string dense_name(const std::string& name) {
  if (name.find(kRouter) != name.npos) return "";
  std::string dense = name;
  if (const std::size_t at = dense.find(kExperts); at != dense.npos)
    dense.replace(at, kExperts.size(), ".mlp.");
  return dense;
}

double upcycling_scale(const ModelOptions& model) {
  const auto topk = static_cast<double>(model.moe_router_topk);
  double sum = 1;  // of the weights of a token's experts, when all logits are equal
  if (model.moe_router_score == RouterScore::sigmoid)
    sum = model.moe_router_topk > 1 ? 1 : 0.5;
  else if (model.moe_router_pre_softmax)
    sum = topk / static_cast<double>(model.num_experts);
  return 1 / (sum * model.moe_router_scaling_factor);
}

void Upcycling::fill(const std::string& name, const Shape& global, const ShardPiece& piece,
                     const View& part, const Read& read) const {
  const std::string dense = dense_name(name);
  if (dense.empty()) return;
  if (dense == name) return read(name, global, piece, part);
  const ShardPiece matrix{of_one(piece.offset), of_one(piece.extent), 0, {}};
  for (std::int64_t expert = 0; expert < piece.extent[0]; ++expert) {
    const View copy = matrix_view(part, expert);
    read(dense, of_one(global), matrix, copy);
    if (scale_ != 1 && name.find(kDown) != name.npos) multiply(copy, scale_);
  }
}

}  // namespace tessera

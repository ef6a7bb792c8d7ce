// Every op refuses a wrong argument by an Error that names the op and the argument: each argument
// of each op is taken away, given another type, another shape, and other strides.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/devices.h"
#include "tests/support/expect_error.h"
#include "tests/support/expert_op_calls.h"
#include "tests/support/op_calls.h"

namespace tessera::test {
namespace {

class ChecksTest : public ::testing::TestWithParam<Device> {
 protected:
  void expect_all_refusals(const OpCall& call) {
    const std::vector<Tensor> memory = memory_for(call);
    Views views;
    for (std::size_t i = 0; i < memory.size(); ++i)
      views.emplace_back(memory[i].view().raw(), call.arguments[i].dtype, call.arguments[i].shape);
    SCOPED_TRACE(call.op);
    EXPECT_NO_THROW(call.run(lab, views)) << "the call must be right to begin with";
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (!(call.arguments[i].freedom & kOptional)) refuse(call, views, i, {}, true);
      refuse_types(call, views, i);
      refuse_shapes(call, views, i);
      refuse_strides(call, views, i);
    }
  }

  Lab lab{GetParam()};

 private:
  // With room to spare, so that a check that is missing shows as no error and not as a crash.
  std::vector<Tensor> memory_for(const OpCall& call) {
    std::vector<Tensor> memory;
    for (const Argument& each : call.arguments) {
      const auto size = static_cast<std::int64_t>(element_size(each.dtype));
      memory.push_back(lab.full(DType::u8, {4 * each.shape.numel() * size + 512}, 0));
    }
    return memory;
  }

  void refuse(const OpCall& call, Views views, std::size_t i, const View& wrong, bool named) {
    const char* name = call.arguments[i].name;
    SCOPED_TRACE(std::string(name) + " as " + wrong.to_string());
    views[i] = wrong;
    expect_error([&] { call.run(lab, views); }, {call.op, named ? name : ""});
  }

  void refuse_types(const OpCall& call, const Views& views, std::size_t i) {
    const Argument& argument = call.arguments[i];
    if (argument.freedom & kAnyType) return;
    std::vector<DType> wrong{is_float(argument.dtype) ? DType::i32 : DType::f32};
    if (is_float(argument.dtype) && !(argument.freedom & kAnyFloat)) wrong.push_back(DType::f16);
    for (const DType type : wrong)
      refuse(call, views, i, View(views[i].raw(), type, argument.shape), false);
  }

  // One column more, one row more, and another number of dimensions.
  void refuse_shapes(const OpCall& call, const Views& views, std::size_t i) {
    const Argument& argument = call.arguments[i];
    if (argument.freedom & kAnyShape) return;
    Shape wider = argument.shape;
    wider[-1] += 1;
    Shape longer = argument.shape;
    longer[0] += 1;
    std::vector<Shape> wrong{wider, Shape{argument.shape.numel(), 1, 1, 1, 1}};
    if (!(argument.freedom & kAnyRows)) wrong.push_back(longer);
    for (const Shape& shape : wrong)
      refuse(call, views, i, View(views[i].raw(), argument.dtype, shape),
             !(argument.freedom & kLeads));
  }

  // Rows with a gap between them, and elements that are two apart.
  void refuse_strides(const OpCall& call, const Views& views, std::size_t i) {
    const Argument& argument = call.arguments[i];
    const auto with_stride = [&](int dimension, std::int64_t stride) {
      Shape strides = contiguous_strides(argument.shape);
      strides[dimension] = stride;
      refuse(call, views, i, View(views[i].raw(), argument.dtype, argument.shape, strides), true);
    };
    if (argument.shape.rank() >= 2 && !(argument.freedom & kGaps))
      with_stride(-2, argument.shape[-1] + 1);
    if (argument.shape[-1] >= 2 && !(argument.freedom & kAnyStrides)) with_stride(-1, 2);
  }
};

TEST_P(ChecksTest, MatricesAttentionAndNorms) {
  for (const OpCall& call : matrix_calls()) expect_all_refusals(call);
}
TEST_P(ChecksTest, NormsOfParts) {
  for (const OpCall& call : norm_part_calls()) expect_all_refusals(call);
}

TEST_P(ChecksTest, MixtureOfExperts) {
  for (const OpCall& call : router_calls()) expect_all_refusals(call);
  for (const OpCall& call : moe_calls()) expect_all_refusals(call);
}
TEST_P(ChecksTest, PointwiseOps) {
  for (const OpCall& call : pointwise_calls()) expect_all_refusals(call);
}
TEST_P(ChecksTest, LossAndOptimizers) {
  for (const OpCall& call : training_calls()) expect_all_refusals(call);
}

TEST_P(ChecksTest, NumbersOutOfRange) {
  const Tensor x = lab.full(DType::f32, {4, 2}, 0);
  const Tensor samples = lab.full(DType::i64, {2}, 0);
  for (const double p : {1.0, -0.1, std::nan("")})
    expect_error(
        [&] {
          lab->add_dropout(lab.stream, x, {}, x, {p, 1, samples, 0});
        },
        {"add_dropout", "probability"});
  const Tensor none = lab.full(DType::i64, {0}, 0);
  expect_error(
      [&] {
        lab->add_dropout(lab.stream, x, {}, x, {0.5, 1, none, 0});
      },
      {"add_dropout", "4 rows", "0 dropout samples"});
  const Tensor stats = lab.full(DType::f32, {4, 2}, 0);
  const Tensor w = lab.full(DType::f32, {2}, 0);
  expect_error(
      [&] {
        lab->norm_forward(lab.stream, x, stats, x, w, {}, {NormKind::layer, -1e-5});
      },
      {"norm_forward", "epsilon"});
  expect_error([&] { lab->scale_logits(lab.stream, x, {.softcap = -1}); },
               {"scale_logits", "soft cap", "-1"});
  const Tensor odd = lab.full(DType::f32, {4, 3}, 0);
  expect_error([&] { lab->gated_activation_forward(lab.stream, x, odd, Activation::silu); },
               {"gated_activation_forward", "even", "3"});
}

TEST_P(ChecksTest, AttentionOptions) {
  const Tensor q = lab.full(DType::f32, {2, 2, 3, 4}, 0);
  const Tensor lse = lab.full(DType::f32, {2, 3, 2}, 0);
  const Tensor documents = lab.full(DType::i32, {1, 2}, 0);
  const Tensor workspace = lab.workspace(kAmple);
  const auto run = [&](const View& k, const AttentionSpec& spec, const View& room) {
    lab->attention_forward(lab.stream, q, lse, q, k, k, spec, room);
  };
  run(q, {}, workspace);
  expect_error([&] { run(q, {.window = -1}, workspace); }, {"attention_forward", "window"});
  expect_error([&] { run(q, {.documents = documents}, workspace); }, {"documents", "[2, 2]"});
  expect_error([&] { run(q, {.dropout = {.p = 1}}, workspace); }, {"probability"});
  expect_error([&] { run(q, {}, workspace.view().slice(0, 0, 8)); }, {"workspace", "u8 [8]"});
  expect_error([&] { run(lab.full(DType::f32, {2, 2, 2, 4}, 0), {}, workspace); }, {"multiple"});
  expect_error([&] { run(lab.full(DType::f32, {2, 2, 0, 4}, 0), {}, workspace); }, {"multiple"});
}

TEST_P(ChecksTest, GemmOptions) {
  const Tensor x = lab.full(DType::f32, {3, 3}, 0);
  const auto run = [&](const GemmSpec& spec) {
    lab->gemm(lab.stream, x, x.view(), x.view(), spec);
  };
  expect_error([&] { run({.accumulate = true, .epilogue = Epilogue::dgelu, .aux = x}); },
               {"gemm", "accumulate"});
  expect_error([&] { run({.epilogue = Epilogue::bias}); }, {"gemm", "bias"});
  expect_error([&] { run({.epilogue = Epilogue::dgelu}); }, {"gemm", "aux"});
}

TEST_P(ChecksTest, GemmOperands) {
  const Tensor x = lab.full(DType::f32, {3, 3}, 0);
  const Tensor one = lab.full(DType::f32, {1}, 1);
  const auto refuse_operand = [&](const View& scale, const View& transposed,
                                  std::initializer_list<const char*> words) {
    Operand special(x.view());
    special.scale = scale;
    special.transposed = transposed;
    expect_error([&] { lab->gemm(lab.stream, x, special, x.view(), {}); }, words);
    expect_error([&] { lab->gemm(lab.stream, x, x.view(), special, {}); }, words);
  };
  refuse_operand(x, {}, {"gemm", "scale", "f32 [1]"});
  refuse_operand(lab.full(DType::f64, {1}, 1), {}, {"gemm", "scale", "f32 [1]"});
  refuse_operand({}, lab.full(DType::f32, {3, 4}, 0), {"gemm", "transpose", "[3, 4]"});
  refuse_operand({}, lab.full(DType::f16, {3, 3}, 0), {"gemm", "transpose", "f16"});
  refuse_operand(one, {}, {"gemm", "does not multiply", "scaled f32"});
  const Tensor other = lab.full(DType::bf16, {3, 3}, 0);
  expect_error([&] { lab->gemm(lab.stream, x, x.view(), other.view(), {}); },
               {"gemm", "does not multiply f32 (a) by bf16 (b) into f32 (d)"});
  expect_error(
      [&] {
        lab->gemm(lab.stream, lab.full(DType::f64, {3, 3}, 0), x.view(), x.view(), {});
      },
      {"gemm", "f64 (d)"});
}

TEST_P(ChecksTest, EveryBackendHasPlainProducts) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const DType out : {type, accumulator_type(type)})
      EXPECT_TRUE(lab->multiplies({out, type, type}));
  EXPECT_FALSE(lab->multiplies({DType::f32, DType::bf16, DType::f16}));
  EXPECT_FALSE(lab->multiplies({DType::bf16, DType::f32, DType::f32}));
  EXPECT_FALSE(lab->multiplies({DType::bf16, DType::bf16, DType::bf16, true, true}));
}

TEST(CpuKernels, NeedAThread) {
  expect_error([] { make_kernels(Device{}, 0); }, {"at least one thread", "0"});
  expect_error([] { make_kernels(Device{}, -1); }, {"at least one thread", "-1"});
}

INSTANTIATE_TEST_SUITE_P(Kernels, ChecksTest, ::testing::ValuesIn(devices()),
                         [](const auto& each) { return device_name(each.param); });

}  // namespace
}  // namespace tessera::test

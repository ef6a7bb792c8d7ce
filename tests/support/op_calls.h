// Every op as a valid call with named arguments, so that a test can spoil one argument at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/kernels/step_state.h"
#include "tests/support/tensors.h"

namespace tessera::test {

/// What may be different about an argument without being wrong.
enum Freedom : unsigned {
  kNone = 0,
  kOptional = 1,   ///< may be missing
  kLeads = 2,      ///< defines shapes, so another argument may be blamed for its wrong one
  kGaps = 4,       ///< rows may have gaps between them
  kAnyFloat = 8,   ///< may have another float type than the rest
  kAnyType = 16,   ///< any type is right
  kAnyShape = 32,  ///< any shape is right, or only a least size
  kAnyRows = 64,   ///< any number of rows is right
  kAnyStrides = 128,
};

struct Argument {
  const char* name;
  DType dtype;
  Shape shape;
  unsigned freedom = kNone;
};

using Views = std::vector<View>;

struct OpCall {
  const char* op;
  std::vector<Argument> arguments;
  std::function<void(Lab&, const Views&)> run;
};

constexpr DType kF32 = DType::f32;
constexpr DType kF64 = DType::f64;
constexpr DType kI32 = DType::i32;
constexpr DType kI64 = DType::i64;
constexpr DType kU8 = DType::u8;
constexpr std::int64_t kStateBytes = sizeof(StepState);
constexpr std::int64_t kRecordBytes = sizeof(StepRecord);
constexpr std::int64_t kAmple = 1 << 20;  // bytes of workspace, more than any call here needs

inline std::vector<OpCall> matrix_calls() {
  return {
      {"gemm",
       {{"d", kF32, {3, 4}, kGaps},
        {"a", kF32, {3, 5}, kGaps | kLeads},
        {"b", kF32, {5, 4}, kGaps | kLeads},
        {"bias", kF32, {4}, kOptional},
        {"aux", kF32, {3, 4}, kGaps}},
       [](Lab& lab, const Views& v) {
         lab->gemm(lab.stream, v[0], v[1], v[2],
                   {.epilogue = Epilogue::bias_gelu, .bias = v[3], .aux = v[4]});
       }},
      {"amax",
       {{"out", kF32, {1}}, {"x", kF32, {3, 4}, kGaps | kAnyRows | kAnyFloat | kAnyShape}},
       [](Lab& lab, const Views& v) { lab->amax(lab.stream, v[0], v[1], false); }},
      {"column_sum",
       {{"db", kF32, {4}, kAnyFloat}, {"dy", kF32, {3, 4}, kGaps | kLeads | kAnyFloat | kAnyRows}},
       [](Lab& lab, const Views& v) { lab->column_sum(lab.stream, v[0], v[1], false); }},
      {"attention_forward",
       {{"o", kF32, {5, 1, 4, 3}, kGaps},
        {"lse", kF32, {1, 4, 5}},
        {"q", kF32, {5, 1, 4, 3}, kGaps | kLeads},
        {"k", kF32, {6, 1, 2, 3}, kGaps | kLeads},
        {"v", kF32, {6, 1, 2, 3}, kGaps},
        {"documents", kI32, {1, 3}, kOptional | kAnyShape | kGaps},
        {"samples", kI64, {1}},
        {"workspace", kU8, {kAmple}, kAnyShape}},
       [](Lab& lab, const Views& v) {
         lab->attention_forward(
             lab.stream, v[0], v[1], v[2], v[3], v[4],
             {.documents = v[5], .dropout = {.p = 0.1, .key = 1, .samples = v[6]}}, v[7]);
       }},
      {"attention_backward",
       {{"dq", kF32, {5, 2, 4, 3}, kGaps},
        {"dk", kF32, {6, 2, 2, 3}, kGaps},
        {"dv", kF32, {6, 2, 2, 3}, kGaps},
        {"d_o", kF32, {5, 2, 4, 3}, kGaps},
        {"q", kF32, {5, 2, 4, 3}, kGaps | kLeads},
        {"k", kF32, {6, 2, 2, 3}, kGaps | kLeads},
        {"v", kF32, {6, 2, 2, 3}, kGaps},
        {"o", kF32, {5, 2, 4, 3}, kGaps},
        {"lse", kF32, {2, 4, 5}},
        {"workspace", kU8, {kAmple}, kAnyShape}},
       [](Lab& lab, const Views& v) {
         lab->attention_backward(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8],
                                 {}, v[9]);
       }},
      {"attention_merge",
       {{"o", kF32, {5, 2, 4, 3}, kGaps},
        {"lse", kF32, {2, 4, 5}, kGaps},
        {"o_a", kF32, {5, 2, 4, 3}, kGaps},
        {"lse_a", kF32, {2, 4, 5}, kGaps},
        {"o_b", kF32, {5, 2, 4, 3}, kGaps | kLeads | kAnyFloat},
        {"lse_b", kF32, {2, 4, 5}, kGaps}},
       [](Lab& lab, const Views& v) {
         lab->attention_merge(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5]);
       }},
      {"attention_sink_forward",
       {{"o", kF32, {5, 2, 4, 3}, kGaps | kLeads | kAnyShape},
        {"lse", kF32, {2, 4, 5}, kGaps},
        {"sink", kF32, {4}, kOptional}},
       [](Lab& lab, const Views& v) { lab->attention_sink_forward(lab.stream, v[0], v[1], v[2]); }},
      {"attention_sink_backward",
       {{"d_rows", kF32, {10, 4}},
        {"d_o", kF32, {5, 2, 4, 3}, kGaps},
        {"o", kF32, {5, 2, 4, 3}, kGaps | kLeads},
        {"lse", kF32, {2, 4, 5}, kGaps},
        {"sink", kF32, {4}, kOptional}},
       [](Lab& lab, const Views& v) {
         lab->attention_sink_backward(lab.stream, v[0], v[1], v[2], v[3], v[4]);
       }},
      {"l2_norm_forward",
       {{"y", kF32, {5, 2, 4}, kGaps}, {"x", kF32, {5, 2, 4}, kGaps | kLeads}},
       [](Lab& lab, const Views& v) { lab->l2_norm_forward(lab.stream, v[0], v[1], 1e-5); }},
      {"l2_norm_backward",
       {{"dx", kF32, {5, 2, 4}, kGaps},
        {"dy", kF32, {5, 2, 4}, kGaps},
        {"x", kF32, {5, 2, 4}, kGaps | kLeads}},
       [](Lab& lab, const Views& v) { lab->l2_norm_backward(lab.stream, v[0], v[1], v[2], 1e-5); }},
      {"rope",
       {{"x", kF32, {5, 2, 3, 8}, kGaps | kAnyShape | kAnyFloat},
        {"cos", kF32, {9, 3}, kLeads},
        {"sin", kF32, {9, 3}},
        {"positions", kI32, {5, 2}}},
       [](Lab& lab, const Views& v) { lab->rope(lab.stream, v[0], v[1], v[2], v[3], false); }},
      {"sum_heads",
       {{"y", kF32, {5, 4}, kGaps}, {"x", kF32, {5, 3, 4}, kGaps | kLeads}},
       [](Lab& lab, const Views& v) { lab->sum_heads(lab.stream, v[0], v[1]); }},
      {"softmax_rows",
       {{"y", kF32, {5, 4}, kLeads | kAnyFloat}, {"x", kF32, {5, 4}}},
       [](Lab& lab, const Views& v) { lab->softmax_rows(lab.stream, v[0], v[1]); }},
      {"norm_forward",
       {{"y", kF32, {3, 4}, kGaps},
        {"stats", kF32, {3, 2}},
        {"x", kF32, {3, 4}, kGaps | kLeads},
        {"w", kF32, {4}},
        {"b", kF32, {4}, kOptional}},
       [](Lab& lab, const Views& v) {
         lab->norm_forward(lab.stream, v[0], v[1], v[2], v[3], v[4], {});
       }},
      {"add_norm_forward",
       {{"y", kF32, {4, 4}},
        {"r", kF32, {4, 4}},
        {"stats", kF32, {4, 2}},
        {"x", kF32, {4, 4}, kLeads},
        {"branch", kF32, {4, 4}},
        {"w", kF32, {4}},
        {"b", kF32, {4}, kOptional},
        {"samples", kI64, {2}}},
       [](Lab& lab, const Views& v) {
         lab->add_norm_forward(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], v[6], {},
                               {.p = 0.1, .key = 1, .samples = v[7]});
       }},
      {"norm_backward",
       {{"dx", kF32, {3, 4}, kGaps},
        {"dw", kF32, {4}, kAnyFloat},
        {"db", kF32, {4}, kOptional},
        {"dy", kF32, {3, 4}, kGaps},
        {"x", kF32, {3, 4}, kGaps | kLeads},
        {"stats", kF32, {3, 2}},
        {"w", kF32, {4}},
        {"workspace", kU8, {kAmple}, kAnyShape}},
       [](Lab& lab, const Views& v) {
         lab->norm_backward(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], v[6], {}, false, false,
                            v[7]);
       }},
  };
}

inline std::vector<OpCall> norm_part_calls() {
  return {
      {"norm_part_stats",
       {{"part", kF32, {3, 2}}, {"x", kF32, {3, 4}, kAnyShape | kAnyFloat | kGaps}},
       [](Lab& lab, const Views& v) { lab->norm_part_stats(lab.stream, v[0], v[1], {}); }},
      {"norm_part_forward",
       {{"y", kF32, {3, 4}, kGaps},
        {"stats", kF32, {3, 2}},
        {"x", kF32, {3, 4}, kLeads | kGaps},
        {"parts", kF32, {5, 3, 2}, kAnyRows},
        {"w", kF32, {4}},
        {"b", kF32, {4}, kOptional}},
       [](Lab& lab, const Views& v) {
         lab->norm_part_forward(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], {});
       }},
      {"norm_part_sums",
       {{"sums", kF32, {3, 2}},
        {"dw", kF32, {4}, kAnyFloat},
        {"db", kF32, {4}, kOptional},
        {"dy", kF32, {3, 4}, kGaps},
        {"x", kF32, {3, 4}, kLeads | kGaps},
        {"stats", kF32, {3, 2}},
        {"w", kF32, {4}},
        {"workspace", kU8, {kAmple}, kAnyShape}},
       [](Lab& lab, const Views& v) {
         lab->norm_part_sums(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], v[6], {}, false, v[7]);
       }},
      {"norm_part_backward",
       {{"dx", kF32, {3, 4}, kGaps},
        {"dy", kF32, {3, 4}, kGaps},
        {"x", kF32, {3, 4}, kLeads | kGaps},
        {"stats", kF32, {3, 2}},
        {"sums", kF32, {3, 2}},
        {"w", kF32, {4}}},
       [](Lab& lab, const Views& v) {
         lab->norm_part_backward(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], 12, {}, false);
       }},
  };
}

inline std::vector<OpCall> pointwise_calls() {
  return {
      {"gated_activation_forward",
       {{"y", kF32, {3, 4}}, {"x", kF32, {3, 8}, kLeads}},
       [](Lab& lab, const Views& v) {
         lab->gated_activation_forward(lab.stream, v[0], v[1], Activation::silu);
       }},
      {"gated_activation_backward",
       {{"dx", kF32, {3, 8}},
        {"y", kF32, {3, 4}, kOptional},
        {"dy", kF32, {3, 4}},
        {"x", kF32, {3, 8}, kLeads}},
       [](Lab& lab, const Views& v) {
         lab->gated_activation_backward(lab.stream, v[0], v[1], v[2], v[3], Activation::silu);
       }},
      {"activation_forward",
       {{"y", kF32, {3, 4}}, {"x", kF32, {3, 4}, kLeads}},
       [](Lab& lab, const Views& v) {
         lab->activation_forward(lab.stream, v[0], v[1], Activation::gelu);
       }},
      {"activation_backward",
       {{"dx", kF32, {3, 4}}, {"dy", kF32, {3, 4}}, {"x", kF32, {3, 4}, kLeads}},
       [](Lab& lab, const Views& v) {
         lab->activation_backward(lab.stream, v[0], v[1], v[2], Activation::gelu);
       }},
      {"add_dropout",
       {{"y", kF32, {4, 3}},
        {"x", kF32, {4, 3}, kOptional},
        {"branch", kF32, {4, 3}, kLeads},
        {"samples", kI64, {2}}},
       [](Lab& lab, const Views& v) {
         lab->add_dropout(lab.stream, v[0], v[1], v[2], {.p = 0.1, .key = 1, .samples = v[3]});
       }},
      {"copy",
       {{"to", kF32, {3, 4}, kGaps | kAnyStrides | kAnyFloat},
        {"from", kF32, {3, 4}, kGaps | kAnyStrides | kLeads | kAnyFloat}},
       [](Lab& lab, const Views& v) { lab->copy(lab.stream, v[0], v[1]); }},
      {"fill",
       {{"x", kF32, {3, 4}, kAnyType | kAnyShape}},
       [](Lab& lab, const Views& v) { lab->fill(lab.stream, v[0], 1); }},
      {"random_normal",
       {{"x", kF32, {3, 4}, kGaps | kAnyFloat}},
       [](Lab& lab, const Views& v) {
         lab->random_normal(lab.stream, v[0], 1, {6, 4}, {3, 0}, 0, 1);
       }},
  };
}

inline std::vector<OpCall> training_calls() {
  return {
      {"embedding_forward",
       {{"y", kF32, {3, 4}},
        {"ids", kI32, {3}, kLeads},
        {"table", kF32, {5, 4}, kGaps | kLeads | kAnyRows}},
       [](Lab& lab, const Views& v) {
         lab->embedding_forward(lab.stream, v[0], v[1], v[2], 0, false);
       }},
      {"embedding_backward",
       {{"dtable", kF32, {5, 4}, kLeads | kAnyFloat | kAnyRows},
        {"dy", kF32, {3, 4}, kAnyFloat},
        {"ids", kI32, {3}, kLeads}},
       [](Lab& lab, const Views& v) {
         lab->embedding_backward(lab.stream, v[0], v[1], v[2], 0, false, lab.workspace(kAmple));
       }},
      {"scale_logits",
       {{"logits", kF32, {4, 5}, kGaps | kAnyRows | kAnyFloat | kAnyShape}},
       [](Lab& lab, const Views& v) { lab->scale_logits(lab.stream, v[0], {.softcap = 30}); }},
      {"softmax_stats",
       {{"stats", kF32, {3, 4}, kGaps},
        {"logits", kF32, {4, 5}, kGaps | kAnyShape | kAnyFloat},
        {"labels", kI32, {4}}},
       [](Lab& lab, const Views& v) { lab->softmax_stats(lab.stream, v[0], v[1], v[2], {0}); }},
      {"softmax_rescale",
       {{"stats", kF32, {3, 4}, kGaps | kLeads}, {"maximum", kF32, {4}}},
       [](Lab& lab, const Views& v) { lab->softmax_rescale(lab.stream, v[0], v[1]); }},
      {"cross_entropy",
       {{"loss", kF32, {4}},
        {"dlogits", kF32, {4, 5}, kGaps | kOptional},
        {"logits", kF32, {4, 5}, kGaps | kLeads},
        {"stats", kF32, {3, 4}, kGaps},
        {"labels", kI32, {4}},
        {"mask", kF32, {4}},
        {"scale", kF64, {1}}},
       [](Lab& lab, const Views& v) {
         lab->cross_entropy(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], v[6], {0});
       }},
      {"masked_sum",
       {{"out", kF64, {1}}, {"x", kF32, {4}, kLeads}, {"mask", kF32, {4}}},
       [](Lab& lab, const Views& v) { lab->masked_sum(lab.stream, v[0], v[1], v[2], false); }},
      {"sum_squares",
       {{"out", kF64, {1}},
        {"x", kF32, {9}, kAnyShape | kAnyFloat},
        {"workspace", kU8, {kAmple}, kAnyShape}},
       [](Lab& lab, const Views& v) { lab->sum_squares(lab.stream, v[0], v[1], false, v[2]); }},
      {"count_nonzero",
       {{"out", kF64, {1}},
        {"x", kF32, {9}, kAnyShape | kAnyFloat},
        {"workspace", kU8, {kAmple}, kAnyShape}},
       [](Lab& lab, const Views& v) { lab->count_nonzero(lab.stream, v[0], v[1], false, v[2]); }},
      {"divide_by_sum",
       {{"weights", kF64, {3}, kAnyShape}, {"totals", kF64, {5}, kAnyShape}},
       [](Lab& lab, const Views& v) { lab->divide_by_sum(lab.stream, v[0], v[1]); }},
      {"start_step",
       {{"grad_scales", kF64, {3}}, {"weights", kF64, {3}, kLeads}, {"state", kU8, {kStateBytes}}},
       [](Lab& lab, const Views& v) { lab->start_step(lab.stream, v[0], v[1], v[2]); }},
      {"finish_step",
       {{"state", kU8, {kStateBytes}},
        {"records", kU8, {2 * kRecordBytes}, kAnyShape},
        {"squares", kF64, {1}},
        {"losses", kF64, {3}, kLeads},
        {"weights", kF64, {3}},
        {"rates", kF64, {5, kStepRates}, kAnyRows}},
       [](Lab& lab, const Views& v) {
         lab->finish_step(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], {});
       }},
      {"adamw_step",
       {{"value", kF32, {9}, kLeads | kAnyFloat},
        {"master", kF32, {9}, kOptional},
        {"m", kF32, {9}},
        {"v", kF32, {9}},
        {"grad", kF32, {9}, kAnyFloat},
        {"state", kU8, {kStateBytes}}},
       [](Lab& lab, const Views& v) {
         lab->adamw_step(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5], {});
       }},
      {"sgd_step",
       {{"value", kF32, {9}, kLeads | kAnyFloat},
        {"master", kF32, {9}, kOptional},
        {"momentum", kF32, {9}},
        {"grad", kF32, {9}, kAnyFloat},
        {"state", kU8, {kStateBytes}}},
       [](Lab& lab, const Views& v) {
         lab->sgd_step(lab.stream, v[0], v[1], v[2], v[3], v[4], {});
       }},
  };
}

}  // namespace tessera::test

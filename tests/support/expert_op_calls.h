// Calls of the ops of mixtures of experts, as op_calls.h has those of the others.
#pragma once

#include <vector>

#include "tests/support/op_calls.h"

namespace tessera::test {

inline std::vector<OpCall> router_calls() {
  return {
      {"route",
       {{"expert", kI32, {3, 2}},
        {"weight", kF32, {3, 2}},
        {"scores", kF32, {3, 4}},
        {"logits", kF32, {3, 4}, kLeads},
        {"bias", kF32, {4}, kOptional}},
       [](Lab& lab, const Views& v) {
         lab->route(lab.stream, v[0], v[1], v[2], v[3], v[4], {.topk = 2});
       }},
      {"route_backward",
       {{"dlogits", kF32, {3, 4}, kAnyFloat},
        {"expert", kI32, {3, 2}},
        {"scores", kF32, {3, 4}, kLeads},
        {"dweight", kF32, {3, 2}},
        {"dbalance", kF32, {2, 4}, kOptional | kAnyRows},
        {"z", kF64, {1}, kOptional},
        {"logits", kF32, {3, 4}}},
       [](Lab& lab, const Views& v) {
         lab->route_backward(lab.stream, v[0], v[1], v[2], {v[3], v[4], v[5], v[6]}, {.topk = 2});
       }},
      {"router_load",
       {{"counts", kF64, {2, 4}, kAnyRows},
        {"sums", kF64, {2, 4}},
        {"expert", kI32, {3, 2}},
        {"scores", kF32, {3, 4}, kLeads}},
       [](Lab& lab, const Views& v) {
         lab->router_load(lab.stream, v[0], v[1], v[2], v[3], {.topk = 2});
       }},
      {"count_experts",
       {{"counts", kF64, {4}, kAnyShape}, {"expert", kI32, {3, 2}, kLeads | kAnyShape}},
       [](Lab& lab, const Views& v) { lab->count_experts(lab.stream, v[0], v[1]); }},
      {"expert_statistics",
       {{"out", kF64, {3}},
        {"counts", kF64, {3, 4}, kLeads | kAnyShape},
        {"kept", kF64, {3, 4}, kOptional}},
       [](Lab& lab, const Views& v) { lab->expert_statistics(lab.stream, v[0], v[1], v[2], 1); }},
      {"set_expert_shares",
       {{"shares", kF32, {4}, kLeads}, {"counts", kF64, {4}}, {"state", kU8, {sizeof(StepState)}}},
       [](Lab& lab, const Views& v) { lab->set_expert_shares(lab.stream, v[0], v[1], v[2]); }},
      {"limit_experts",
       {{"kept", kI32, {3, 2}, kLeads | kAnyRows},
        {"expert", kI32, {8, 2}},
        {"weight", kF32, {8, 2}},
        {"order", kI32, {16}},
        {"offsets", kI32, {5}, kAnyShape}},
       [](Lab& lab, const Views& v) {
         lab->limit_experts(lab.stream, v[0], v[1], v[2], v[3], v[4], 2, {.capacity = 1},
                            {.batch = 2, .seq = 4});
       }},
      {"update_expert_bias",
       {{"bias", kF32, {4}, kLeads}, {"counts", kF64, {4}}, {"state", kU8, {sizeof(StepState)}}},
       [](Lab& lab, const Views& v) {
         lab->update_expert_bias(lab.stream, v[0], v[1], v[2], 1e-3);
       }},
      {"balance_loss",
       {{"loss", kF64, {1}},
        {"dbalance", kF32, {2, 4}},
        {"counts", kF64, {2, 4}, kLeads},
        {"sums", kF64, {2, 4}},
        {"grad_scale", kF64, {1}}},
       [](Lab& lab, const Views& v) {
         lab->balance_loss(lab.stream, v[0], v[1], v[2], v[3], v[4], 1, 1, false);
       }},
      {"router_z_loss",
       {{"loss", kF64, {1}},
        {"z", kF64, {1}},
        {"logits", kF32, {3, 4}, kLeads | kAnyShape},
        {"grad_scale", kF64, {1}}},
       [](Lab& lab, const Views& v) {
         lab->router_z_loss(lab.stream, v[0], v[1], v[2], v[3], 1, 1);
       }},
  };
}

inline std::vector<OpCall> moe_calls() {
  return {
      {"sort_by_expert",
       {{"order", kI32, {10}, kAnyShape},
        {"place", kI32, {5, 2}},
        {"offsets", kI32, {3}, kAnyShape},
        {"expert", kI32, {5, 2}, kLeads}},
       [](Lab& lab, const Views& v) {
         lab->sort_by_expert(lab.stream, v[0], v[1], v[2], v[3], 0);
       }},
      {"expert_shards",
       {{"shard", kI32, {5, 6}}, {"expert", kI32, {5, 2}, kLeads}},
       [](Lab& lab, const Views& v) { lab->expert_shards(lab.stream, v[0], v[1], 2, 3); }},
      {"sort_received",
       {{"order", kI32, {5}, kLeads},
        {"place", kI32, {5, 1}},
        {"offsets", kI32, {3}, kLeads},
        {"offsets_of_ranks", kI32, {2, 5}, kLeads}},
       [](Lab& lab, const Views& v) { lab->sort_received(lab.stream, v[0], v[1], v[2], v[3], 1); }},
      {"permute_rows",
       {{"y", kF32, {5, 3}}, {"x", kF32, {4, 3}, kLeads | kAnyRows}, {"order", kI32, {5}, kLeads}},
       [](Lab& lab, const Views& v) { lab->permute_rows(lab.stream, v[0], v[1], v[2], 2); }},
      {"unpermute_rows",
       {{"y", kF32, {4, 3}},
        {"x", kF32, {5, 3}, kLeads | kAnyRows},
        {"place", kI32, {4, 2}, kLeads | kAnyShape}},
       [](Lab& lab, const Views& v) { lab->unpermute_rows(lab.stream, v[0], v[1], v[2]); }},
      {"expert_activation_forward",
       {{"y", kF32, {3, 4}}, {"x", kF32, {3, 8}, kLeads}, {"weight", kF32, {3}}},
       [](Lab& lab, const Views& v) {
         lab->expert_activation_forward(lab.stream, v[0], v[1], v[2], Activation::silu);
       }},
      {"expert_activation_backward",
       {{"dx", kF32, {3, 8}},
        {"y", kF32, {3, 4}, kOptional},
        {"dweight", kF32, {3}},
        {"dy", kF32, {3, 4}},
        {"x", kF32, {3, 8}, kLeads},
        {"weight", kF32, {3}}},
       [](Lab& lab, const Views& v) {
         lab->expert_activation_backward(lab.stream, v[0], v[1], v[2], v[3], v[4], v[5],
                                         Activation::silu);
       }},
      {"grouped_gemm",
       {{"d", kF32, {5, 4}},
        {"a", kF32, {5, 3}, kLeads},
        {"b", kF32, {2, 4, 3}, kLeads},
        {"offsets", kI32, {3}}},
       [](Lab& lab, const Views& v) {
         lab->grouped_gemm(lab.stream, v[0], v[1], v[2], v[3], true);
       }},
      {"grouped_weight_gradient",
       {{"d", kF32, {2, 4, 3}, kLeads},
        {"a", kF32, {5, 4}, kLeads},
        {"b", kF32, {5, 3}},
        {"offsets", kI32, {3}}},
       [](Lab& lab, const Views& v) {
         lab->grouped_weight_gradient(lab.stream, v[0], v[1], v[2], v[3], false);
       }},
      {"add_expert_bias",
       {{"y", kF32, {5, 4}, kLeads | kAnyRows},
        {"bias", kF32, {2, 4}, kLeads},
        {"offsets", kI32, {3}},
        {"weight", kF32, {5}, kOptional}},
       [](Lab& lab, const Views& v) { lab->add_expert_bias(lab.stream, v[0], v[1], v[2], v[3]); }},
      {"expert_bias_gradient",
       {{"dbias", kF32, {2, 4}, kLeads},
        {"dy", kF32, {5, 4}, kLeads | kAnyRows | kAnyFloat},
        {"offsets", kI32, {3}},
        {"weight", kF32, {5}, kOptional}},
       [](Lab& lab, const Views& v) {
         lab->expert_bias_gradient(lab.stream, v[0], v[1], v[2], v[3], false);
       }},
      {"expert_bias_dot",
       {{"dweight", kF32, {5}},
        {"dy", kF32, {5, 4}, kLeads},
        {"bias", kF32, {2, 4}, kLeads},
        {"offsets", kI32, {3}}},
       [](Lab& lab, const Views& v) { lab->expert_bias_dot(lab.stream, v[0], v[1], v[2], v[3]); }},
      {"scale_rows",
       {{"y", kF32, {3, 4}}, {"x", kF32, {3, 4}, kLeads}, {"scale", kF32, {3}}},
       [](Lab& lab, const Views& v) { lab->scale_rows(lab.stream, v[0], v[1], v[2]); }},
      {"row_dot",
       {{"out", kF32, {3}}, {"x", kF32, {3, 4}, kLeads}, {"y", kF32, {3, 4}}},
       [](Lab& lab, const Views& v) { lab->row_dot(lab.stream, v[0], v[1], v[2]); }},
  };
}

}  // namespace tessera::test

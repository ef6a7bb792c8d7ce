// `tessera verify`: right layouts pass, and one lost sum is found and its layer named.
#include "tessera/verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/verify/reference_model.h"
#include "tests/support/forwarding_communicator.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

Options llama(int tensor, bool sequence_parallel) {
  Options options;
  options.model = test::tiny_llama();
  options.model.num_layers = 32;
  options.model.hidden_size = 4096;
  options.model.ffn_hidden_size = 14336;
  options.model.num_attention_heads = 32;
  options.model.num_query_groups = 8;
  options.model.kv_channels = 128;
  options.model.vocab_size = 128257;
  options.data.seq_length = 8192;
  options.train.micro_batch_size = 1;
  options.train.global_batch_size = 4;
  options.parallel.tensor = tensor;
  options.parallel.expert_tensor = tensor;  // as resolve derives it
  options.parallel.sequence_parallel = sequence_parallel;
  return options;
}

TEST(ReferenceModel, KeepsWhatMattersToTheLayout) {
  const ReferenceModel equal = make_reference_model(llama(8, true));
  EXPECT_EQ(equal.session.parallel.tensor, 2);
  EXPECT_EQ(equal.session.model.num_query_groups, 2);
  EXPECT_TRUE(equal.session.parallel.sequence_parallel);
  EXPECT_NE(equal.session.model.vocab_size % 2, 0) << "the vocabulary stays ragged";
  const ReferenceModel fewer = make_reference_model(llama(16, false));
  EXPECT_EQ(fewer.session.parallel.tensor, 4);
  EXPECT_EQ(fewer.session.model.num_query_groups, 2);
  const ReferenceModel more = make_reference_model(llama(4, false));
  EXPECT_EQ(more.session.parallel.tensor, 4);
  EXPECT_EQ(more.session.model.num_query_groups, 8);
  EXPECT_EQ(more.session.model.dtype, DType::f64);
  EXPECT_EQ(more.changes.front(), "seq-length 8192 -> 12");
}

TEST(Verify, RightLayoutsPass) {
  for (const int tensor : {1, 2, 16})
    for (const bool sequence_parallel : {false, true}) {
      if (sequence_parallel && tensor == 1) continue;
      const VerifyResult result =
          verify_layout(make_reference_model(llama(tensor, sequence_parallel)).session);
      EXPECT_TRUE(result.same) << result.where;
      EXPECT_EQ(result.log.size(), 6u);
    }
}

TEST(Verify, ContextParallelLayoutsPass) {
  for (const int context : {2, 16}) {
    Options options = llama(2, true);
    options.parallel.context = context;
    const ReferenceModel reference = make_reference_model(options);
    EXPECT_EQ(reference.session.parallel.context, std::min(context, 3));
    EXPECT_EQ(reference.session.shape.seq % (4 * reference.session.parallel.context), 0);
    const VerifyResult result = verify_layout(reference.session);
    EXPECT_TRUE(result.same) << result.where;
  }
}

// DeepSeek-V3's sizes; with and without a latent for queries.
// Frozen parameters are those of the same depth.
TEST(Verify, MultiTokenPredictionPasses) {
  for (const int pipeline : {1, 4}) {
    Options options = llama(8, true);
    options.model.mtp_num_layers = 2;
    options.parallel.pipeline = pipeline;
    options.parallel.context = 2;
    options.train.global_batch_size = 8;
    options.optimizer.frozen = {"mtp.1.eh_proj.*"};
    const SessionOptions reference = make_reference_model(options).session;
    EXPECT_EQ(reference.model.mtp_num_layers, 2);
    EXPECT_EQ(reference.optimizer.frozen, options.optimizer.frozen);
    const VerifyResult result = verify_layout(reference);
    EXPECT_TRUE(result.same) << result.where;
  }
}

TEST(Verify, LatentAttentionPasses) {
  for (const std::int64_t q_rank : {0, 1536}) {
    Options options = llama(8, true);
    ModelOptions& model = options.model;
    model.multi_latent_attention = true;
    model.qk_norm = QkNorm::per_head;
    model.num_query_groups = model.num_attention_heads;
    model.q_lora_rank = q_rank;
    model.kv_lora_rank = 512;
    model.kv_channels = 192;
    options.parallel.context = 4;
    options.parallel.cp_comm_types = {CpCommType::a2a};
    const SessionOptions reference = make_reference_model(options).session;
    EXPECT_EQ(reference.model.q_lora_rank, q_rank > 0 ? 10 : 0);
    EXPECT_EQ(reference.model.kv_channels,
              reference.model.qk_head_dim + reference.model.qk_pos_emb_head_dim);
    EXPECT_EQ(reference.model.num_query_groups, reference.model.num_attention_heads);
    const VerifyResult result = verify_layout(reference);
    EXPECT_TRUE(result.same) << result.where;
  }
}

TEST(Verify, KindsOfContextParallelismPass) {
  for (const auto& kinds : {std::vector{CpCommType::a2a}, std::vector{CpCommType::all_gather},
                            std::vector{CpCommType::a2a_p2p}, std::vector(32, CpCommType::p2p)}) {
    Options options = llama(2, true);
    options.parallel.context = 8;
    options.parallel.cp_comm_types = kinds;
    if (kinds.size() > 1) options.parallel.cp_comm_types[1] = CpCommType::a2a;
    if (kinds[0] == CpCommType::a2a_p2p) options.parallel.hierarchical_context = {2, 4};
    const SessionOptions reference = make_reference_model(options).session;
    EXPECT_EQ(reference.parallel.cp_comm_types.front(), kinds.front());
    EXPECT_TRUE(kinds.size() == 1 || reference.parallel.cp_comm_types.at(1) == CpCommType::a2a);
    const VerifyResult result = verify_layout(reference);
    EXPECT_TRUE(result.same) << result.where;
  }
}

// As many layers as kinds remain, so that each kind is verified.
TEST(ReferenceModel, KeepsEveryKindOfContextParallelism) {
  for (const int pipeline : {1, 2}) {
    Options options = llama(2, true);
    options.parallel.pipeline = pipeline;
    options.parallel.context = 8;
    options.parallel.hierarchical_context = {2, 4};
    options.parallel.cp_comm_types = std::vector(32, CpCommType::p2p);
    const std::vector all{CpCommType::all_gather, CpCommType::a2a, CpCommType::a2a_p2p,
                          CpCommType::p2p};
    std::ranges::copy(all, options.parallel.cp_comm_types.begin());
    const SessionOptions reference = make_reference_model(options).session;
    for (const CpCommType kind : all)
      EXPECT_GT(std::ranges::count(reference.parallel.cp_comm_types, kind), 0)
          << to_string(kind) << " with " << pipeline << " stages";
    const VerifyResult result = verify_layout(reference);
    EXPECT_TRUE(result.same) << result.where;
  }
}

TEST(Verify, ExpertParallelLayoutsPass) {
  for (const int expert_tensor : {1, 2}) {
    Options options = llama(2, true);
    options.model.num_experts = 64;
    options.model.moe_ffn_hidden_size = 512;
    options.parallel.expert = 16;
    options.parallel.expert_tensor = expert_tensor;
    options.parallel.data = 16;
    options.train.global_batch_size = 64;
    options.parallel.sharding = Sharding::optimizer;
    const ReferenceModel reference = make_reference_model(options);
    EXPECT_EQ(reference.session.parallel.expert, 2);
    EXPECT_EQ(reference.session.parallel.expert_tensor, expert_tensor);
    EXPECT_EQ(reference.session.model.num_experts, 8) << "four on each of two ranks";
    const VerifyResult result = verify_layout(reference.session);
    EXPECT_TRUE(result.same) << result.where;
  }
}

TEST(Verify, KeepsTheRelationOfExpertsToTheLayout) {
  const auto reference_of = [](int tensor, int expert_tensor, int expert, std::int64_t experts) {
    Options options = llama(tensor, tensor > 1);
    options.model.num_experts = experts;
    options.model.moe_ffn_hidden_size = 512;
    options.parallel.expert = expert;
    options.parallel.expert_tensor = expert_tensor;
    options.parallel.data = 2 * expert * expert_tensor;
    options.train.global_batch_size = 4 * options.parallel.data;
    return make_reference_model(options).session;
  };
  EXPECT_EQ(reference_of(1, 1, 3, 3).model.num_experts, 2) << "one on each of two ranks";
  EXPECT_EQ(reference_of(1, 2, 2, 8).parallel.expert_tensor, 2) << "more than tensor";
  EXPECT_EQ(reference_of(4, 2, 1, 8).parallel.expert_tensor, 2) << "fewer than tensor";
  for (const auto& session : {reference_of(1, 1, 3, 3), reference_of(1, 2, 2, 8)})
    EXPECT_TRUE(verify_layout(session).same);
}

TEST(Verify, KeptSharesAreNoDifference) {
  Options options = llama(2, false);
  options.recompute.granularity = RecomputeGranularity::full;
  options.recompute.distribute_saved_activations = true;
  const VerifyResult result = verify_layout(make_reference_model(options).session);
  EXPECT_TRUE(result.same) << result.where;
}

Options pipeline(int ranks, std::int64_t layers) {
  Options options = llama(1, false);
  options.model.num_layers = layers;
  options.parallel.pipeline = options.parallel.nproc = ranks;
  options.train.global_batch_size = 32;
  return options;
}

bool notes(const ReferenceModel& reference, const std::string& change) {
  return std::ranges::count(reference.changes, change) == 1;
}

TEST(ReferenceModel, KeepsThePipelinesUnevenness) {
  Options options = pipeline(8, 32);
  options.pipeline.first_layers = 2;
  options.pipeline.last_layers = 6;
  const ReferenceModel ends = make_reference_model(options);
  EXPECT_EQ(ends.session.parallel.pipeline, 4);
  EXPECT_EQ(ends.session.parallel.nproc, 4) << "the reference model's ranks";
  EXPECT_EQ(ends.session.pipeline.layout, "Et|tt|tt|tttL");
  EXPECT_TRUE(notes(ends, "pipeline-model-parallel-size 8 -> 4"));
  EXPECT_TRUE(notes(ends, "layers by stage 2 4 4 4 4 4 4 6 -> 1 2 2 3"));

  options = pipeline(2, 32);
  options.pipeline.chunks = 2;
  options.pipeline.layout = "E|t*16|t*16|L";
  EXPECT_EQ(make_reference_model(options).session.pipeline.layout, "E|t|t|L");

  options = pipeline(4, 14);
  options.pipeline.count_embedding = options.pipeline.count_loss = true;
  EXPECT_EQ(make_reference_model(options).session.pipeline.layout, "Et|tt|tt|tL");

  const ReferenceModel even = make_reference_model(pipeline(4, 32));
  EXPECT_EQ(even.session.model.num_layers, 4);
  EXPECT_EQ(even.session.pipeline.layout, "");
}

TEST(ReferenceModel, KeepsGroupsLimitsAndTimes) {
  Options options = pipeline(2, 24);
  options.pipeline.chunks = options.pipeline.virtual_stages = 3;
  options.pipeline.microbatch_group = 4;
  options.train.global_batch_size = 18;  // leaves two
  const ReferenceModel groups = make_reference_model(options);
  EXPECT_EQ(groups.session.pipeline.chunks, 2);
  EXPECT_EQ(groups.session.pipeline.microbatch_group, 3);
  EXPECT_EQ(groups.session.microbatches, 5) << "a group, and two that are left";
  EXPECT_TRUE(notes(groups, "virtual stages of each pipeline rank 3 -> 2"));
  EXPECT_TRUE(notes(groups, "microbatch-group-size-per-virtual-pipeline-stage 4 -> 3"));

  options = pipeline(6, 24);
  options.pipeline.schedule = ScheduleKind::search;
  options.pipeline.memory_limit = 5;
  options.pipeline.action_times.assign(15, 1);
  options.pipeline.action_times.insert(options.pipeline.action_times.end(), {2, 3, 4});
  const ReferenceModel searched = make_reference_model(options);
  EXPECT_EQ(searched.session.pipeline.action_times,
            (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4}));
  EXPECT_TRUE(notes(searched, "pipeline-memory-limit 5 -> 3"));
}

TEST(Verify, RightPipelinesPass) {
  std::vector<Options> all;
  all.push_back(pipeline(2, 8));  // groups of layers begin anew on each stage
  all.back().recompute.granularity = RecomputeGranularity::full;
  all.back().recompute.num_layers = 2;
  all.push_back(pipeline(4, 10));  // whose first and last stage have fewer layers
  all.back().pipeline.count_embedding = all.back().pipeline.count_loss = true;
  all.push_back(pipeline(2, 12));
  all.back().pipeline.chunks = 3;
  all.back().pipeline.microbatch_group = 3;
  all.push_back(pipeline(1, 8));  // two chunks on the only rank of the pipeline
  all.back().pipeline.schedule = ScheduleKind::zb_v;
  all.back().pipeline.chunks = 2;
  all.push_back(pipeline(2, 8));  // nothing is trained on rank 0
  all.back().optimizer.frozen = {"embedding*", "layers.0.*"};
  for (const Options& options : all) {
    const ReferenceModel reference = make_reference_model(options);
    const VerifyResult result = verify_layout(reference.session);
    EXPECT_TRUE(result.same) << result.where;
  }
}

// Passes everything on, but the n-th all-reduce of the tensor group, which it forgets.
class Forgetful final : public test::ForwardingCommunicator {
 public:
  Forgetful(std::shared_ptr<Communicator> inner, std::shared_ptr<int> left)
      : ForwardingCommunicator(std::move(inner)), left_(std::move(left)) {}

  WorkHandle all_reduce(View x, ReduceOp op, Stream& stream) override {
    if (size() > 1 && (*left_)-- == 0) return std::make_shared<Work>();
    return inner_->all_reduce(x, op, stream);
  }
  std::shared_ptr<Communicator> split(int colour, int key) override {
    return std::make_shared<Forgetful>(inner_->split(colour, key), left_);
  }

 private:
  std::shared_ptr<int> left_;
};

std::string found(int forgotten) {
  VerifyOptions options;
  options.world = [&](int, std::shared_ptr<Communicator> world) {
    return std::make_shared<Forgetful>(std::move(world), std::make_shared<int>(forgotten));
  };
  Options run = llama(2, false);
  run.train.global_batch_size = 1;
  return verify_layout(make_reference_model(run).session, options).where;
}

TEST(Verify, NamesTheLayerThatLostASum) {
  // Forward: the embedding, then attention and feed-forward of each of three layers.
  EXPECT_TRUE(found(0).starts_with("output of 'embedding' differs")) << found(0);
  EXPECT_TRUE(found(1).starts_with("output of 'layers.0.attention' differs")) << found(1);
  EXPECT_TRUE(found(4).starts_with("output of 'layers.1.mlp' differs")) << found(4);
  // Then three of the loss, and backward from the last layer on: its feed-forward comes first.
  EXPECT_TRUE(found(10).starts_with("gradient 'layers.2.mlp_norm.weight' differs")) << found(10);
  EXPECT_TRUE(found(13).starts_with("gradient 'layers.1.attention_norm.weight' differs"))
      << found(13);
}

}  // namespace
}  // namespace tessera

// Generation: the cache changes nothing, and sampling does what its options say.
#include <gtest/gtest.h>

#include <map>

#include "tessera/infer/generate.h"
#include "tests/support/expect_error.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

SessionOptions inference(const std::string& family, std::int64_t seq) {
  SessionOptions options = test::tiny_session(family);
  options.shape = {seq, 1};
  options.training = false;
  options.model.dtype = DType::f64;
  return options;
}

// The most likely next token, computed from the whole sequence without a cache.
std::int32_t next_without_cache(const std::string& family,
                                const std::vector<std::int32_t>& tokens) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  Session session(inference(family, n), {0, 1, 1, make_self_communicator()});
  HostBatch batch{1, n, tokens, tokens, std::vector<float>(tokens.size()), {}, {0}};
  for (std::int32_t i = 0; i < n; ++i) batch.positions.push_back(i);
  session.step_runner().batches().set(0, batch);
  session.step_runner().batches().send(session.context().stream, LossAverage::per_token);
  session.step_runner().batches().set_training(false);
  const std::int64_t vocab = session.options().model.vocab_size;
  const Tensor logits = session.memory().allocate(MemoryUse::data, DType::f64, {1, vocab});
  session.head_runner()->forward_logits(session.step_runner().batches().microbatches()[0], logits,
                                        {});
  const double* begin = logits.data<double>();
  return static_cast<std::int32_t>(std::max_element(begin, begin + vocab) - begin);
}

TEST(Generate, TheCacheChangesNothing) {
  for (const std::string& family : test::tiny_families()) {
    std::vector<std::int32_t> tokens{5, 17, 3, 42, 8, 8, 1};
    GenerateOptions options;
    options.greedy = true;
    options.max_new_tokens = 12;
    Session session(inference(family, 10), {0, 1, 2, make_self_communicator()});
    Generator generator(session, options, 1, session.options().model.vocab_size);
    const std::vector<std::int32_t> generated = generator.run(tokens, {}, [](std::int32_t) {});
    ASSERT_EQ(generated.size(), 12u);
    for (const std::int32_t token : generated) {
      EXPECT_EQ(token, next_without_cache(family, tokens)) << family;
      tokens.push_back(token);
    }
  }
}

TEST(Generate, StopsAtAnyOfTheStops) {
  Session session(inference("gpt", 10), {0, 1, 2, make_self_communicator()});
  GenerateOptions options;
  options.greedy = true;
  options.max_new_tokens = 12;
  Generator generator(session, options, 1, session.options().model.vocab_size);
  const std::vector<std::int32_t> prompt{5, 17, 3};
  const auto all = generator.run(prompt, {}, [](std::int32_t) {});
  const auto first = std::find(all.begin(), all.end(), all.back());
  const std::vector<std::int32_t> stops{-1, all.back()};
  EXPECT_EQ(generator.run(prompt, stops, [](std::int32_t) {}), std::vector(all.begin(), first));
}

TEST(Generate, RefusesMoreThanTheModelHasPositionsFor) {
  Session session(inference("gpt", 4), {0, 1, 1, make_self_communicator()});
  GenerateOptions options;
  options.max_new_tokens = 100;
  Generator generator(session, options, 1, session.options().model.vocab_size);
  const std::vector<std::int32_t> prompt{1, 2, 3};
  test::expect_input_error([&] { generator.run(prompt, {}, [](std::int32_t) {}); },
                           {"32 positions", "--max-new-tokens 100"});
}

TEST(Generate, AsManyTokensAsFitUnlessSomebodySaysHowMany) {
  ModelOptions model;
  GenerateOptions options;
  const auto most = [&](std::size_t prompt) {
    return most_new_tokens(std::vector<std::int32_t>(prompt, 1), options, model);
  };
  model.max_position_embeddings = 128;
  EXPECT_EQ(most(28), 100);
  EXPECT_EQ(most(127), 1);
  test::expect_input_error([&] { most(128); }, {"prompt of 128 tokens", "128 positions"});
  test::expect_input_error([&] { most(0); }, {"no tokens"});
  model.max_position_embeddings = 4096;
  EXPECT_EQ(most(28), 128);
  options.max_new_tokens = 4000;
  EXPECT_EQ(most(96), 4000);
  test::expect_input_error([&] { most(97); }, {"--max-new-tokens 4000", "4096 positions"});
}

std::map<std::int32_t, int> draws(const std::vector<float>& logits,
                                  const GenerateOptions& options) {
  std::map<std::int32_t, int> counts;
  const RngKey key = rng_key(3, RngPurpose::test, "draws");
  for (std::uint64_t i = 0; i < 20000; ++i)
    ++counts[sample_token(logits, options, philox_word(key, i))];
  return counts;
}

TEST(Sampling, FollowsTheProbabilities) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.2f), std::log(0.3f)};
  const auto counts = draws(logits, {});
  EXPECT_NEAR(counts.at(0) / 20000.0, 0.5, 0.015);
  EXPECT_NEAR(counts.at(1) / 20000.0, 0.2, 0.015);
  EXPECT_NEAR(counts.at(2) / 20000.0, 0.3, 0.015);
}

TEST(Sampling, TopKTopPAndTemperatureCut) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.2f), std::log(0.3f)};
  GenerateOptions options;
  options.top_k = 2;
  EXPECT_EQ(draws(logits, options).count(1), 0u);
  options.top_k = 0;
  options.top_p = 0.45;
  EXPECT_EQ(draws(logits, options).size(), 1u);
  options.top_p = 0.7;
  EXPECT_EQ(draws(logits, options).size(), 2u);
  options.top_p = 1.0;
  options.temperature = 0.25;  // 0.5^4 : 0.3^4 : 0.2^4
  EXPECT_NEAR(draws(logits, options).at(0) / 20000.0, 0.0625 / (0.0625 + 0.0081 + 0.0016), 0.015);
  options.greedy = true;
  EXPECT_EQ(draws(logits, options).size(), 1u);
}

}  // namespace
}  // namespace tessera

// Trains a small GPT on random tokens, on four ranks: 2-way tensor times 2-way data parallelism.
#include <tessera/tessera.h>

#include <cstdio>

int main() {
  tessera::Options options;
  options.model.num_layers = 2;
  options.model.hidden_size = 64;
  options.model.num_attention_heads = 4;
  options.data.mock_data = true;
  options.data.seq_length = 64;
  options.train.micro_batch_size = 4;
  options.train.train_iters = 20;
  options.schedule.lr = 1e-2;
  options.parallel.nproc = 4;
  options.parallel.tensor = 2;
  const auto print_loss = [](const tessera::StepMetrics& step) {
    std::printf("step %2d loss %.4f\n", int(step.iteration), step.metrics.number("lm_loss"));
  };
  return tessera::train(options, {.step = print_loss, .evaluation = nullptr});
}

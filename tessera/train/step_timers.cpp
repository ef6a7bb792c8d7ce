#include "tessera/train/step_timers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <string_view>

#include "tessera/launch/compare.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 2> kParts{"forward-backward", "optimizer"};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void StepTimers::submit(Steps& steps, const NextBatch& next_batch) {
  Stream& stream = session_.context().stream;
  const auto begin = std::chrono::steady_clock::now();
  steps.submit_gradients(next_batch);
  stream.synchronize();
  const auto middle = std::chrono::steady_clock::now();
  gradients_ += std::chrono::duration<double>(middle - begin).count();
  steps.submit_update();
  stream.synchronize();
  update_ += seconds_since(middle);
  ++steps_;
}

void StepTimers::report() {
  if (!on() || steps_ == 0) return;
  const std::vector<std::string> texts = gather_texts(
      session_.context().mesh.world(), fmt::format("{} {}", gradients_ / steps_, update_ / steps_),
      session_.options().device);
  std::vector<std::vector<double>> times;
  for (const std::string& text : texts) {
    std::istringstream words(text);
    std::vector<double>& own = times.emplace_back(kParts.size());
    for (double& each : own) words >> each;
  }
  reporter_.message(timing_text(options_.timing_log_option, times));
  gradients_ = update_ = 0;
  steps_ = 0;
}

std::string timing_text(TimingOption option, const std::vector<std::vector<double>>& times) {
  std::string text = option == TimingOption::all      ? "times across ranks (ms):"
                     : option == TimingOption::minmax ? "(min, max) time across ranks (ms):"
                                                      : "max time across ranks (ms):";
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    std::vector<double> milliseconds;
    for (const std::vector<double>& rank : times) milliseconds.push_back(rank[part] * 1e3);
    const std::string name = fmt::format("\n    {:.<40}:", std::string(kParts[part]) + " ");
    const auto [least, most] = std::ranges::minmax(milliseconds);
    switch (option) {
      case TimingOption::max: text += fmt::format("{} {:.2f}", name, most); break;
      case TimingOption::minmax:
        text += fmt::format("{} ({:.2f}, {:.2f})", name, least, most);
        break;
      case TimingOption::all:
        text += name;
        for (std::size_t rank = 0; rank < times.size(); ++rank)
          text += fmt::format("\n     rank {:2}: {:.2f}", rank, milliseconds[rank]);
    }
  }
  return text;
}

}  // namespace tessera

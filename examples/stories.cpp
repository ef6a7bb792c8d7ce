// Writes small stories as JSON lines: data for a first training run that needs no download.
//   stories COUNT SEED > stories.jsonl
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/base/json.h"
#include "tessera/base/rng.h"

namespace {

using tessera::Json;

// One story's own stream of random choices.
class Chooser {
 public:
  Chooser(std::uint64_t seed, int story)
      : key_(tessera::rng_key(seed, tessera::RngPurpose::test, "story " + std::to_string(story))) {}

  template <std::size_t N>
  std::string_view pick(const std::array<std::string_view, N>& words) {
    return words[tessera::philox_word(key_, next_++) % N];
  }
  bool coin() { return tessera::philox_word(key_, next_++) % 2 == 0; }

 private:
  tessera::RngKey key_;
  std::uint64_t next_ = 0;
};

constexpr std::array<std::string_view, 12> kNames{"Ada",  "Ben", "Clara", "Dov",   "Emmy", "Finn",
                                                  "Gita", "Hal", "Ines",  "Jonas", "Kira", "Leo"};
constexpr std::array<std::string_view, 10> kAnimals{"fox",  "owl",    "cat",   "hare",  "bear",
                                                    "duck", "badger", "mouse", "heron", "goat"};
constexpr std::array<std::string_view, 10> kAdjectives{
    "small", "old", "brave", "sleepy", "clever", "quiet", "kind", "lost", "happy", "curious"};
constexpr std::array<std::string_view, 10> kThings{
    "a red stone", "a warm hat",      "an old map",  "a silver key", "a lantern",
    "a letter",    "a loaf of bread", "a blue boat", "a bell",       "a little book"};
constexpr std::array<std::string_view, 8> kPlaces{
    "by the river",  "in the forest", "on the hill",   "under the bridge",
    "in the garden", "near the mill", "at the market", "behind the house"};
constexpr std::array<std::string_view, 6> kTimes{
    "One morning", "One evening", "On a rainy day", "In the spring", "After the snow", "Long ago"};
constexpr std::array<std::string_view, 6> kFeelings{"glad",  "surprised", "tired",
                                                    "proud", "afraid",    "hungry"};
constexpr std::array<std::string_view, 6> kEndings{
    "They were friends from that day on.", "Then everybody went home.",
    "And the moon rose over the roofs.",   "Nobody ever forgot that day.",
    "So they sat down and laughed.",       "The next day they met again."};

std::string story(std::uint64_t seed, int number) {
  Chooser choose(seed, number);
  const std::string name(choose.pick(kNames));
  const std::string animal(choose.pick(kAnimals));
  const std::string adjective(choose.pick(kAdjectives));
  const std::string thing(choose.pick(kThings));
  const std::string place(choose.pick(kPlaces));
  std::string text = std::string(choose.pick(kTimes)) + " " + name + " met a " + adjective + " " +
                     animal + " " + place + ". The " + animal + " was " +
                     std::string(choose.pick(kFeelings)) + ". ";
  if (choose.coin())
    text += "\"Have you seen " + thing + "?\" asked the " + animal + ". ";
  else
    text += "\"I have lost " + thing + ",\" said the " + animal + ". ";
  text += name + " looked " + std::string(choose.pick(kPlaces)) + " and found " + thing + ". ";
  if (choose.coin()) text += "\"Thank you, " + name + "!\" said the " + animal + ". ";
  return text + std::string(choose.pick(kEndings));
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 0;
  if (count <= 0) {
    std::fputs("usage: stories COUNT [SEED] > stories.jsonl\n", stderr);
    return 2;
  }
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  for (int i = 0; i < count; ++i) std::puts(Json{{"text", story(seed, i)}}.dump().c_str());
  return 0;
}

#include "tessera/launch/mpirun_output.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tessera {
namespace {

const std::string kRule(74, '-');

std::string shown(MpirunOutput& output, const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) all += output.pass(line);
  return all + output.rest();
}

TEST(MpirunOutput, RanksAreShown) {
  MpirunOutput output;
  EXPECT_EQ(shown(output, "a\n--- b ---\n\nc\n"), "a\n--- b ---\n\nc\n");
  EXPECT_FALSE(output.killed());
}

TEST(MpirunOutput, WordsOnAFailedJobAreNot) {
  MpirunOutput output;
  EXPECT_EQ(shown(output, "tessera: rank 1: no\n" + kRule +
                              "\nPrimary job  terminated normally, but 1 process returned\n" +
                              "a non-zero exit code.\n" + kRule + "\nlast\n"),
            "tessera: rank 1: no\nlast\n");
}

TEST(MpirunOutput, TheKilledRankIsKnown) {
  MpirunOutput output;
  EXPECT_EQ(
      shown(output, kRule +
                        "\nmpirun noticed that process rank 2 with PID 0 on node vm exited on "
                        "signal 9 (Killed).\n" +
                        kRule + "\n"),
      "");
  EXPECT_EQ(output.killed(), 2);
}

TEST(MpirunOutput, OtherWordsAreShownAlsoWhenCutOff) {
  MpirunOutput output;
  const std::string help = kRule + "\nThere are not enough slots available in the system\n";
  EXPECT_EQ(shown(output, help + kRule + "\n"), help + kRule + "\n");
  EXPECT_EQ(shown(output, help), help);
}

}  // namespace
}  // namespace tessera

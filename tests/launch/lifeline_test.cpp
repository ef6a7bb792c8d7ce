// Ranks that tell each other that they live: those that stop, vanish, or end in order.
#include "tessera/launch/lifeline.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

#include "tessera/base/check.h"
#include "tests/launch/meeting.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;

constexpr Lifeline::Options kQuick{20ms, 1000ms, 200ms};

std::pair<Socket, Socket> connected() {
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "no sockets");
  return {Socket(ends[0]), Socket(ends[1])};
}

// A rank with one connection, and what it says when it loses it.
class OneEnd {
 public:
  OneEnd(int other, Socket socket)
      : line_(std::in_place, connections(other, std::move(socket)), kQuick,
              [this](const std::string& reason) { reason_.set_value(reason); }) {}

  /// Nothing when there was none for a while.
  std::string reason() {
    auto future = reason_.get_future();
    return future.wait_for(2500ms) == std::future_status::ready ? future.get() : "";
  }
  void end() { line_.reset(); }

 private:
  static std::vector<Connection> connections(int other, Socket socket) {
    std::vector<Connection> one;
    one.push_back({other, std::move(socket)});
    return one;
  }

  std::promise<std::string> reason_;
  std::optional<Lifeline> line_;
};

TEST(Lifeline, RanksThatLiveAreNotMissed) {
  auto [a, b] = connected();
  OneEnd zero(1, std::move(a)), one(0, std::move(b));
  EXPECT_EQ(zero.reason(), "");
}

TEST(Lifeline, NeitherIsOneThatEndsInOrder) {
  auto [a, b] = connected();
  OneEnd zero(1, std::move(a)), one(0, std::move(b));
  one.end();
  EXPECT_EQ(zero.reason(), "");
}

TEST(Lifeline, ASilentRankIsMissed) {
  auto [a, b] = connected();
  OneEnd zero(3, std::move(a));
  EXPECT_NE(zero.reason().find("rank 3 has not been heard of for"), std::string::npos);
}

TEST(Lifeline, ARankThatVanishesIsMissed) {
  auto [a, b] = connected();
  OneEnd zero(3, std::move(a));
  b = Socket();
  EXPECT_NE(zero.reason().find("rank 3 has ended before"), std::string::npos);
}

TEST(Lifeline, RunsOverTheConnectionsOfARendezvous) {
  const test::Meeting meeting(3);
  const auto attend = [&](int rank) {
    return std::async(std::launch::async,
                      [&, rank] { return rendezvous(meeting.options(rank), {}); });
  };
  auto host = attend(0), first = attend(1), second = attend(2);
  std::vector<Connection> connections = host.get().connections;
  ASSERT_EQ(connections.size(), 2u);
  std::vector<Connection> theirs[] = {first.get().connections, second.get().connections};
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(theirs[i].size(), 1u);
    EXPECT_EQ(theirs[i][0].rank, 0);
    EXPECT_EQ(connections[i].rank, static_cast<int>(i) + 1);
    const std::byte sent{7};
    std::byte got{};
    ASSERT_TRUE(connections[i].socket.send_all(std::span(&sent, 1), Clock::now() + 1s));
    ASSERT_TRUE(theirs[i][0].socket.receive_all(std::span(&got, 1), Clock::now() + 1s));
    EXPECT_EQ(got, sent) << "rank " << i + 1;
  }
}

}  // namespace
}  // namespace tessera

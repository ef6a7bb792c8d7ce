// Those who do not belong to a rendezvous: they get nothing, and keep nobody waiting.
#include <gtest/gtest.h>

#include <thread>

#include "tests/launch/meeting.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::Meeting;
using test::Outcome;

class Strangers : public testing::Test {
 protected:
  void send(const Socket& socket, std::string_view text) {
    EXPECT_TRUE(socket.send_all(bytes_of(text), Clock::now() + 1s));
  }
  // The ranks must meet all the same; strangers do not hold them up until the limit of the meeting.
  void expect_meeting() {
    auto guest = meeting_.start(1);
    EXPECT_EQ(guest.get().data, Meeting::kData);
    EXPECT_EQ(host_.get().data, Meeting::kData);
  }

  Meeting meeting_{2};
  std::future<Outcome> host_ = meeting_.start(0);
};

TEST_F(Strangers, OfEveryKind) {
  const Socket silent = meeting_.connect(), half = meeting_.connect(), web = meeting_.connect(),
               loud = meeting_.connect();
  meeting_.connect();  // comes and goes
  send(half, "tessera1");
  send(web,
       "GET / HTTP/1.1\r\nHost: somebody\r\nUser-Agent: a program that looks around\r\n"
       "Accept: everything that there is to be had here, and more\r\n\r\n");
  send(loud, std::string(100'000, 'x'));
  expect_meeting();
}

TEST_F(Strangers, WhoSayNothingAreDropped) {
  const Socket silent = meeting_.connect();
  Meeting::hear_challenge(silent);
  EXPECT_TRUE(Meeting::is_closed(silent));
  expect_meeting();
}

// One byte at a time, each in time, all of them too late.
TEST_F(Strangers, WhoSpeakSlowlyAreDropped) {
  const Socket slow = meeting_.connect();
  const Challenge challenge = Meeting::hear_challenge(slow);
  const auto hello = meeting_.hello(1, challenge).to_bytes();
  bool open = true;
  for (std::size_t i = 0; i < hello.size() && open; ++i) {
    open = slow.send_all(std::span(hello).subspan(i, 1), Clock::now() + 1s);
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(Meeting::is_closed(slow));
  expect_meeting();
}

// However long they may take, only so many are kept: the oldest make room.
TEST(Crowd, IsSentAway) {
  const Meeting meeting(2);
  RendezvousOptions patient = meeting.options(0);
  patient.introduction = 60s;
  auto host = meeting.start(patient);
  std::vector<Socket> crowd;
  for (int i = 0; i < 400; ++i) crowd.push_back(meeting.connect());
  Meeting::hear_challenge(crowd.front());
  EXPECT_TRUE(Meeting::is_closed(crowd.front()));
  auto guest = meeting.start(1);
  EXPECT_EQ(guest.get().data, Meeting::kData);
  EXPECT_EQ(host.get().data, Meeting::kData);
}

TEST_F(Strangers, WhoRepeatWhatARankSaid) {
  const Socket true_rank = meeting_.connect();
  const auto hello = meeting_.hello(1, Meeting::hear_challenge(true_rank)).to_bytes();
  const Socket other = meeting_.connect();
  Meeting::hear_challenge(other);
  ASSERT_TRUE(other.send_all(hello, Clock::now() + 1s));
  EXPECT_TRUE(Meeting::is_closed(other));
  expect_meeting();
}

TEST_F(Strangers, WhoChangeWhatARankSaid) {
  for (const std::size_t place : {8, 12, 16, 48, 80, 111}) {
    const Socket socket = meeting_.connect();
    auto hello = meeting_.hello(1, Meeting::hear_challenge(socket)).to_bytes();
    hello[place] ^= std::byte{4};
    ASSERT_TRUE(socket.send_all(hello, Clock::now() + 1s));
    EXPECT_TRUE(Meeting::is_closed(socket)) << "byte " << place;
  }
  expect_meeting();
}

// Somebody else listens where rank 0 should, and answers a rank with `answer` (after a challenge
// of the true form, unless `challenge` is false).
std::string what_a_rank_makes_of(const std::vector<std::byte>& answer, bool challenge = true) {
  const Meeting meeting(2, 600ms);
  const Socket impostor = Socket::listen_at(test::kHost, meeting.port);
  auto guest = meeting.start(1);
  std::vector<Socket> taken;
  while (guest.wait_for(5ms) != std::future_status::ready) {
    std::string peer;
    Socket socket = impostor.accept(peer);
    if (!socket) continue;
    const Deadline soon = Clock::now() + 1s;
    std::array<std::byte, Hello::kBytes> hello;
    if (challenge) {
      socket.send_all(Challenge{random_nonce()}.to_bytes(), soon);
      socket.receive_all(hello, soon);
    }
    socket.send_all(answer, soon);
    taken.push_back(std::move(socket));
  }
  const Outcome outcome = guest.get();
  EXPECT_TRUE(outcome.data.empty());
  return outcome.error;
}

std::vector<std::byte> answer_of(Verdict verdict, std::uint32_t bytes, std::size_t sent) {
  const auto header = AnswerHeader{verdict, bytes}.to_bytes();
  std::vector<std::byte> answer(header.begin(), header.end());
  answer.resize(answer.size() + sent);
  return answer;
}

TEST(Frames, AnAnswerIsBounded) {
  const auto is_accepted = [](std::uint32_t verdict, std::uint32_t bytes) {
    const auto frame = AnswerHeader{static_cast<Verdict>(verdict), bytes}.to_bytes();
    return AnswerHeader::from_bytes(frame).has_value();
  };
  EXPECT_TRUE(is_accepted(0, 0));
  EXPECT_TRUE(is_accepted(2, AnswerHeader::kMostBytes));
  EXPECT_FALSE(is_accepted(0, AnswerHeader::kMostBytes + 1));
  EXPECT_FALSE(is_accepted(0, 0xffffffff));
  EXPECT_FALSE(is_accepted(3, 0));
}

TEST(Impostor, DoesNotConvince) {
  for (const Verdict verdict : {Verdict::welcome, Verdict::started_wrongly})
    EXPECT_NE(what_a_rank_makes_of(answer_of(verdict, 4, 4 + 32)).find("not authentic"),
              std::string::npos);
}

TEST(Impostor, WithAHugeAnswerIsNotHeard) {
  EXPECT_NE(what_a_rank_makes_of(answer_of(Verdict::welcome, 0xffffffff, 100)).find("rank 0"),
            std::string::npos);
}

TEST(Impostor, ThatIsAnotherProgramIsNamed) {
  const std::string other = "220 mail.example.com ESMTP, and whatever else such programs say";
  EXPECT_NE(what_a_rank_makes_of(bytes_of(other), false).find("another program"),
            std::string::npos);
  EXPECT_NE(what_a_rank_makes_of({}, false).find("another program"), std::string::npos);
}

}  // namespace
}  // namespace tessera

// Ranks that meet: all come, some do not, one comes twice, one knows another secret.
#include "tessera/launch/rendezvous.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/launch/meeting.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;
using test::Meeting;
using test::Outcome;

void expect_says(const Outcome& outcome, std::initializer_list<const char*> parts) {
  EXPECT_FALSE(outcome.error.empty()) << "nothing was thrown";
  for (const char* part : parts)
    EXPECT_NE(outcome.error.find(part), std::string::npos)
        << "lacks '" << part << "': " << outcome.error;
}

void expect_data(std::future<Outcome>& rank) {
  const Outcome outcome = rank.get();
  EXPECT_EQ(outcome.data, Meeting::kData) << outcome.error;
}

TEST(Rendezvous, EveryRankGetsTheDataWhoeverComesFirst) {
  const Meeting meeting(6);
  std::vector<std::future<Outcome>> ranks;
  for (const int r : {3, 1, 5}) ranks.push_back(meeting.start(r));
  std::this_thread::sleep_for(100ms);  // these find nobody at first
  for (const int r : {0, 2, 4}) ranks.push_back(meeting.start(r));
  for (auto& rank : ranks) expect_data(rank);
}

TEST(Rendezvous, OneRankNeedsNobody) {
  EXPECT_EQ(Meeting::attend(Meeting(1).options(0)).data, Meeting::kData);
}

TEST(Rendezvous, NoDataIsData) {
  const Meeting meeting(2);
  auto host = std::async(std::launch::async, [&] { return rendezvous(meeting.options(0), {}); });
  EXPECT_TRUE(rendezvous(meeting.options(1), {}).data.empty());
  EXPECT_TRUE(host.get().data.empty());
}

TEST(Rendezvous, RanksThatNeverComeAreNamedToAll) {
  const Meeting meeting(7, 1500ms);
  std::vector<std::future<Outcome>> ranks;
  for (const int r : {0, 1, 3}) ranks.push_back(meeting.start(r));
  for (auto& rank : ranks) {
    const Outcome outcome = rank.get();
    expect_says(outcome, {"4 of 7 ranks have not come", "ranks 2 and 4-6", "127.0.0.1"});
    EXPECT_FALSE(outcome.input_error);
  }
}

TEST(Rendezvous, WithoutRank0TheOthersSaySo) {
  const Meeting meeting(2, 300ms);
  expect_says(Meeting::attend(meeting.options(1)),
              {"rank 1 did not reach rank 0 at 127.0.0.1", "Connection refused"});
}

TEST(Rendezvous, ARankThatComesTwiceIsAnErrorOfAll) {
  const Meeting meeting(3);
  auto host = meeting.start(0);
  auto first = meeting.start(1), second = meeting.start(1);
  for (auto* rank : {&host, &first, &second}) {
    const Outcome outcome = rank->get();
    expect_says(outcome, {"two processes", "rank 1", "RANK"});
    EXPECT_TRUE(outcome.input_error);
  }
}

TEST(Rendezvous, ASecondRank0IsAnError) {
  const Meeting meeting(2);
  auto host = meeting.start(0);
  const Socket socket = meeting.connect();
  const auto hello = meeting.hello(0, Meeting::hear_challenge(socket)).to_bytes();
  ASSERT_TRUE(socket.send_all(hello, Clock::now() + 1s));
  expect_says(host.get(), {"a second process", "rank 0 of 2"});
}

TEST(Rendezvous, AnotherWorldSizeIsAnError) {
  const Meeting meeting(2);
  auto host = meeting.start(0);
  RendezvousOptions other = meeting.options(1);
  other.size = 4;
  expect_says(Meeting::attend(other), {"one of 4 ranks", "rank 0 as one of 2"});
  expect_says(host.get(), {"one of 4 ranks"});
}

TEST(Rendezvous, AWrongSecretGetsNothingAndStopsNobody) {
  const Meeting meeting(3);
  auto host = meeting.start(0);
  RendezvousOptions wrong = meeting.options(1);
  wrong.secret = "another secret, of another run";
  wrong.timeout = 500ms;
  expect_says(Meeting::attend(wrong), {"another secret"});
  auto first = meeting.start(1), second = meeting.start(2);
  for (auto* rank : {&host, &first, &second}) expect_data(*rank);
}

TEST(Rendezvous, AWrongSecretIsNamedWhenItsRankIsMissed) {
  const Meeting meeting(2, 800ms);
  auto host = meeting.start(0);
  RendezvousOptions wrong = meeting.options(1);
  wrong.secret = "another secret, of another run";
  Meeting::attend(wrong);
  expect_says(host.get(),
              {"rank 1", "connections were dropped", "does not know this run's secret"});
}

TEST(Rendezvous, ARankThatEndsAndComesAgainIsTaken) {
  const Meeting meeting(3);
  auto host = meeting.start(0);
  {
    const Socket socket = meeting.connect();
    const auto hello = meeting.hello(1, Meeting::hear_challenge(socket)).to_bytes();
    ASSERT_TRUE(socket.send_all(hello, Clock::now() + 1s));
    std::this_thread::sleep_for(100ms);  // it has its seat now
  }
  auto first = meeting.start(1);
  std::this_thread::sleep_for(100ms);
  auto second = meeting.start(2);
  for (auto* rank : {&host, &first, &second}) expect_data(*rank);
}

TEST(Rendezvous, ListensAtItsAddressAlone) {
  const Meeting meeting(2);
  auto host = meeting.start(0);
  Socket there = meeting.connect();
  std::string why;
  EXPECT_FALSE(Socket::connect_to("127.0.0.2", meeting.port, Clock::now() + 1s, why)) << why;
  there = Socket();
  auto guest = meeting.start(1);
  expect_data(host);
  expect_data(guest);
}

TEST(Rendezvous, AnAddressThatCannotBeUsedIsNamed) {
  const Meeting meeting(2);
  const Socket taken = Socket::listen_at(test::kHost, meeting.port);
  const Outcome outcome = Meeting::attend(meeting.options(0));
  expect_says(outcome, {"cannot listen at 127.0.0.1", "in use", "TESSERA_RENDEZVOUS_PORT"});
  EXPECT_TRUE(outcome.input_error);

  RendezvousOptions elsewhere = meeting.options(0);
  elsewhere.address = "192.0.2.1";  // reserved for examples: no machine has it
  expect_says(Meeting::attend(elsewhere), {"192.0.2.1", "MASTER_ADDR"});
}

}  // namespace
}  // namespace tessera

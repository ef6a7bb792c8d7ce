#include "tessera/comm/mpi/group.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/comm/call_checks.h"

namespace tessera {
namespace {

// Where attached bytes begin in a message, so that they are aligned for every type.
constexpr std::size_t kAttachedAt = 128;
static_assert(sizeof(CallOffer) <= kAttachedAt);
constexpr std::size_t kLargestOffer = kAttachedAt + MpiGroup::kMostAttached;

std::vector<std::byte> to_bytes(const void* data, std::size_t count) {
  const auto* bytes = static_cast<const std::byte*>(data);
  return {bytes, bytes + count};
}

}  // namespace

// Memory of no bytes may have no address, which memcpy must not see.
void copy_into(const MpiPart& to, const void* from) {
  if (to.bytes > 0 && to.data != from) std::memcpy(to.data, from, to.bytes);
}

MpiGroup::MpiGroup(std::shared_ptr<MpiEngine> engine, std::vector<int> ranks, int number)
    : engine_(std::move(engine)),
      ranks_(std::move(ranks)),
      tags_(number),
      rank_(place_of(engine_->rank())) {}

int MpiGroup::place_of(int job_rank) const {
  return static_cast<int>(std::find(ranks_.begin(), ranks_.end(), job_rank) - ranks_.begin());
}

MpiGroup::Meeting MpiGroup::meet(const CallOffer& mine, MpiPart attached,
                                 CallConsistency consistency, MpiPatience patience) {
  check(!broken_, "{}: a call of this group was given up before, so ranks are at different calls",
        mine);
  MpiMessage message{{}, tags_.calls, {}, {}};
  message.header.resize(kAttachedAt + attached.bytes);
  std::memcpy(message.header.data(), &mine, sizeof(mine));
  copy_into({message.header.data() + kAttachedAt, attached.bytes}, attached.data);
  // Other ranks' attachments may be larger than this rank's: then the ranks disagree.
  std::byte* inbox = engine_->inbox(ranks_.size() * kLargestOffer);
  MpiRequests requests;
  // Each rank starts at its successor, so that not all turn to the same one at once.
  for (int i = 1; i < size(); ++i) {
    const auto other = static_cast<std::size_t>((rank_ + i) % size());
    requests.receive(inbox + other * kLargestOffer, kLargestOffer, ranks_[other], tags_.calls);
    message.to.push_back(ranks_[other]);
  }
  engine_->post(std::move(message));
  finish(requests, "did not come to " + mine.to_string(), patience);
  Meeting meeting;
  for (std::size_t r = 0; r < ranks_.size(); ++r, inbox += kLargestOffer) {
    const bool own = static_cast<int>(r) == rank_;
    std::memcpy(&meeting.offers.emplace_back(), own ? static_cast<const void*>(&mine) : inbox,
                sizeof(CallOffer));
    meeting.attachments.push_back(own ? static_cast<std::byte*>(attached.data)
                                      : inbox + kAttachedAt);
  }
  // Every rank sees the same offers, so all throw where one does, and the same text.
  if (const auto mismatch = find_mismatch(meeting.offers, consistency, ranks_))
    throw Error(*mismatch);
  return meeting;
}

void MpiGroup::exchange(std::span<const MpiPart> out, std::span<const MpiPart> in,
                        const CallOffer& mine) {
  MpiRequests requests;
  for (int i = 1; i < size(); ++i) {
    const auto from = static_cast<std::size_t>((rank_ + size() - i) % size());
    requests.receive(in[from].data, in[from].bytes, ranks_[from], tags_.data);
  }
  for (int i = 1; i < size(); ++i) {
    const auto to = static_cast<std::size_t>((rank_ + i) % size());
    requests.send(out[to].data, out[to].bytes, ranks_[to], tags_.data);
  }
  copy_into(in[static_cast<std::size_t>(rank_)], out[static_cast<std::size_t>(rank_)].data);
  finish(requests, fmt::format("came to {}, but its data did not move", mine.to_string()));
}

void MpiGroup::finish(MpiRequests& requests, const std::string& what, MpiPatience patience) {
  broken_ = !engine_->finish(requests, patience);
  if (broken_) fail_missing(requests, what);
}

void MpiGroup::send(const ConstView& x, int to) const {
  const CallOffer offer("send", x);
  engine_->send({{ranks_[static_cast<std::size_t>(to)]},
                 tags_.mail,
                 to_bytes(&offer, sizeof(offer)),
                 to_bytes(x.raw(), x.bytes())});
}

void MpiGroup::receive(const View& x, int from) const {
  const int sender = ranks_[static_cast<std::size_t>(from)];
  const CallOffer mine("recv", x);
  CallOffer theirs;
  MpiRequests header;
  header.receive(&theirs, sizeof(theirs), sender, tags_.mail);
  if (!engine_->finish(header))
    fail_missing(header, fmt::format("sent nothing to rank {} for {}", rank_, mine.to_string()));
  const bool fits = theirs.dtype == mine.dtype && theirs.bytes() == mine.bytes();
  // A message of another size is received all the same, so that the next one can be.
  std::vector<std::byte> other(fits ? 0 : theirs.bytes());
  MpiRequests payload;
  payload.receive(fits ? x.raw() : other.data(), theirs.bytes(), sender, tags_.mail);
  if (!engine_->finish(payload))
    fail_missing(payload,
                 fmt::format("sent only a part to rank {} for {}", rank_, mine.to_string()));
  check(fits, "rank {} sent {} to rank {}, which expects {}", from, theirs.memory(), rank_,
        mine.memory());
}

std::shared_ptr<MpiGroup> MpiGroup::split(int colour, int key) {
  CallOffer mine("split");
  mine.colour = colour;
  mine.key = key;
  mine.next_group = engine_->next_group();
  const std::vector<CallOffer> offers = meet(mine).offers;
  std::vector<std::pair<int, int>> members;  // (key, rank of this group)
  int number = 0;
  for (int r = 0; r < size(); ++r) {
    const CallOffer& offer = offers[static_cast<std::size_t>(r)];
    number = std::max(number, offer.next_group);
    if (offer.colour == colour) members.emplace_back(offer.key, r);
  }
  std::sort(members.begin(), members.end());
  engine_->take_group(number);
  std::vector<int> ranks;
  for (const auto& [_, r] : members) ranks.push_back(ranks_[static_cast<std::size_t>(r)]);
  return std::make_shared<MpiGroup>(engine_, std::move(ranks), number);
}

void MpiGroup::fail_missing(const MpiRequests& requests, const std::string& what) const {
  std::vector<int> late, ended;
  for (const int job_rank : requests.missing())
    (engine_->has_left(job_rank) ? ended : late).push_back(place_of(job_rank));
  if (!ended.empty()) fail("{} {}: the program ended there", format_ranks(ended, ranks_), what);
  fail(
      "{} {} within {} s. It lives, but computes, waits for something else, or makes other calls "
      "than rank {}; if it only needs longer, raise the time limit of calls",
      format_ranks(late, ranks_), what, engine_->call_timeout().count(), rank_);
}

}  // namespace tessera

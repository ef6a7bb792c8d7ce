#include "tessera/optim/state_windows.h"

#include <algorithm>
#include <utility>

namespace tessera {

StateWindows::StateWindows(std::vector<View> states, std::int64_t elements, Device device,
                           Memory& memory)
    : states_(std::move(states)),
      elements_(elements),
      in_(device),
      out_(device),
      begun_(device),
      windows_{Window(device), Window(device)} {
  for (Window& window : windows_)
    for (const View& state : states_)
      window.memory.push_back(memory.allocate(MemoryUse::optimizer, state.dtype(), {elements}));
}

void StateWindows::copy(Stream& stream, const View& to, const View& from) {
  stream.api().copy_bytes(stream.native(), to.raw(), from.raw(), from.bytes());
}

void StateWindows::pass(Stream& stream, const std::vector<Range>& ranges, const Update& update) {
  begun_.record(stream);
  begun_.wait(in_);
  begun_.wait(out_);
  for (Window& window : windows_) window.stored.record(out_);
  std::size_t next = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::int64_t begin = ranges[i].begin; begin < ranges[i].end; begin += elements_) {
      const Range part{begin, std::min(begin + elements_, ranges[i].end)};
      Window& window = windows_[next++ % windows_.size()];
      std::vector<View> views;
      window.stored.wait(in_);
      for (std::size_t k = 0; k < states_.size(); ++k) {
        views.push_back(window.memory[k].view().slice(0, 0, part.length()));
        copy(in_, views[k], states_[k].slice(0, part.begin, part.length()));
      }
      window.loaded.record(in_);
      window.loaded.wait(stream);
      update(i, part, views);
      window.updated.record(stream);
      window.updated.wait(out_);
      for (std::size_t k = 0; k < states_.size(); ++k)
        copy(out_, states_[k].slice(0, part.begin, part.length()), views[k]);
      window.stored.record(out_);
    }
  for (Window& window : windows_) window.stored.wait(stream);
}

}  // namespace tessera

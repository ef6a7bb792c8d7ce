// Optimizer state offloaded to host memory and updated on the device: windows of it are copied in,
// updated and copied out again. The copies of one window overlap with the update of another.
//
//   copies in   | 0 | 1 | 2 |  ...
//   updates         | 0 | 1 | 2 | ...
//   copies out          | 0 | 1 | 2 | ...
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "tessera/parallel/context.h"
#include "tessera/parallel/sharding.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class StateWindows {
 public:
  /// `states`: flat blocks of host memory, of equal length. A window has `elements` of each.
  StateWindows(std::vector<View> states, std::int64_t elements, Device device, Memory& memory);

  /// Calls update(range, window) for the windows of `ranges`, in order; window[i] holds that part
  /// of state i on the device. Work that it launches on the stream updates them, and later work
  /// sees the updated state.
  using Update =
      std::function<void(std::size_t range, const Range& part, const std::vector<View>& window)>;
  void pass(Stream& stream, const std::vector<Range>& ranges, const Update& update);

 private:
  struct Window {
    explicit Window(Device device) : loaded(device), updated(device), stored(device) {}
    std::vector<Tensor> memory;  ///< one tensor per state
    Event loaded;
    Event updated;
    Event stored;
  };
  static void copy(Stream& stream, const View& to, const View& from);

  std::vector<View> states_;
  std::int64_t elements_;
  Stream in_;
  Stream out_;
  Event begun_;
  std::array<Window, 2> windows_;
};

}  // namespace tessera

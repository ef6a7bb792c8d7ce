// The devices that tests run on: the CPU always, the first GPU where the build and the machine have
// one, or where TESSERA_NEED_GPU says that they should.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/tensor/device.h"

namespace tessera::test {

inline std::vector<Device> devices() {
  std::vector<Device> all{Device{}};
  if (cuda_device_count() > 0 || std::getenv("TESSERA_NEED_GPU") != nullptr)
    all.push_back(Device{DeviceKind::cuda, 0});
  return all;
}

/// For test names, which hold letters and digits alone.
inline std::string device_name(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda" + std::to_string(device.index);
}

}  // namespace tessera::test

#include "tessera/tensor/cuda/cupti.h"

#include <dlfcn.h>

#include <string>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// By name first, as LD_LIBRARY_PATH and the loader's folders have it; then where CUDA puts it,
// which is no folder of the loader's.
constexpr const char* kPlaces[] = {"libcupti.so.13", "libcupti.so",
                                   "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13",
                                   "/usr/local/cuda/lib64/libcupti.so.13"};
constexpr const char* kAdvice =
    "profiling a GPU needs the library CUPTI of CUDA 13, which comes with the CUDA toolkit "
    "(extras/CUPTI/lib64) and as the Python wheel nvidia-cuda-cupti: install it, add its folder to "
    "LD_LIBRARY_PATH, or drop --profile";

// Never closed: the driver calls into it for the rest of the program.
void* open_library() {
  std::string reasons;
  for (const char* place : kPlaces) {
    if (void* library = ::dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = ::dlerror();
    if (reasons.empty() && reason != nullptr) reasons = reason;
  }
  fail_input("{} ({})", kAdvice, reasons);
}

template <class Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  check_input(function != nullptr, "CUPTI has no function {}: {}", name, kAdvice);
}

Cupti load() {
  void* library = open_library();
  Cupti api;
  find(library, api.get_version, "cuptiGetVersion");
  find(library, api.get_result_string, "cuptiGetResultString");
  find(library, api.get_timestamp, "cuptiGetTimestamp");
  find(library, api.register_callbacks, "cuptiActivityRegisterCallbacks");
  find(library, api.enable, "cuptiActivityEnable");
  find(library, api.disable, "cuptiActivityDisable");
  find(library, api.flush_all, "cuptiActivityFlushAll");
  find(library, api.get_next_record, "cuptiActivityGetNextRecord");
  find(library, api.get_num_dropped_records, "cuptiActivityGetNumDroppedRecords");
  find(library, api.push_external_id, "cuptiActivityPushExternalCorrelationId");
  find(library, api.pop_external_id, "cuptiActivityPopExternalCorrelationId");
  std::uint32_t version = 0;
  api.check(api.get_version(&version), "cuptiGetVersion");
  // 130001 is version 1 for CUDA 13.0. Within a major version records only grow at their end.
  check_input(version / 10000 == CUPTI_API_VERSION / 10000,
              "CUPTI has API version {}, this program reads records of version {}: {}", version,
              CUPTI_API_VERSION, kAdvice);
  return api;
}

}  // namespace

void Cupti::check(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  get_result_string(result, &words);
  fail(
      "CUPTI: {} failed: {} ({}). A process has room for one profiler: do not combine --profile "
      "with Nsight or another one",
      call, words != nullptr ? words : "unknown", static_cast<int>(result));
}

const Cupti& cupti() {
  static const Cupti api = load();
  return api;
}

}  // namespace tessera

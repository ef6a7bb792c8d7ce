// CUPTI, the library that reports GPU activity. It is loaded when a trace needs it, so that a
// program that does not profile does not depend on it.
#pragma once

#include <cupti_activity.h>
#include <cupti_result.h>
#include <cupti_version.h>

namespace tessera {

/// The functions of CUPTI that traces call, by their own names without the prefix.
struct Cupti {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_num_dropped_records = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_id = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_id = nullptr;

  /// Throws an Error with CUPTI's message unless the call succeeded.
  void check(CUptiResult result, const char* call) const;
};

/// Loads the library at the first call. InputError if it is missing, or has another version than
/// the records that this program can read.
const Cupti& cupti();

}  // namespace tessera

// CUPTI, the library by which the driver tells what a GPU did. It is opened when a trace wants it,
// so that a program that does not profile needs none.
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

  /// Error, with CUPTI's own words, unless the call went well.
  void check(CUptiResult result, const char* call) const;
};

/// Opens the library at the first call. InputError when it is missing, or of another version than
/// the records that this program can read.
const Cupti& cupti();

}  // namespace tessera

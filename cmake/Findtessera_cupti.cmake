# Profiling on GPUs: the headers of CUPTI, which tools/fetch_cuda_headers.sh puts below build/. The library itself
# is opened when a trace starts, so nothing is linked.
find_path(CUPTI_INCLUDE_DIR cupti_activity.h
  HINTS "${CMAKE_SOURCE_DIR}/build/deps/cupti/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_cupti
  REQUIRED_VARS CUPTI_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "The CUDA backend needs the headers of CUPTI: run tools/setup.sh cuda")
if(tessera_cupti_FOUND AND NOT TARGET tessera::cupti)
  # Global, since test programs in other folders link what the tensors link.
  add_library(tessera::cupti INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::cupti SYSTEM INTERFACE ${CUPTI_INCLUDE_DIR})
endif()
mark_as_advanced(CUPTI_INCLUDE_DIR)

# Grouped products on Hopper GPUs: the headers of CUTLASS, which tools/fetch_cuda_headers.sh puts below build/.
find_path(CUTLASS_INCLUDE_DIR cutlass/cutlass.h
  HINTS "${CMAKE_SOURCE_DIR}/build/deps/cutlass/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_cutlass
  REQUIRED_VARS CUTLASS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "The CUDA backend needs the headers of CUTLASS: run tools/setup.sh cuda")
if(tessera_cutlass_FOUND AND NOT TARGET tessera::cutlass)
  add_library(tessera::cutlass INTERFACE IMPORTED)
  target_include_directories(tessera::cutlass SYSTEM INTERFACE ${CUTLASS_INCLUDE_DIR})
endif()
mark_as_advanced(CUTLASS_INCLUDE_DIR)

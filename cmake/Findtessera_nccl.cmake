# Communication between GPUs: NCCL, which NVIDIA ships beside CUDA.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_nccl
  REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_LIBRARY
  REASON_FAILURE_MESSAGE
    "The CUDA backend needs NCCL 2 (install it beside CUDA, or set NCCL_INCLUDE_DIR and NCCL_LIBRARY)")
if(tessera_nccl_FOUND AND NOT TARGET tessera::nccl)
  # Global, since programs in other folders link what communicators link.
  add_library(tessera::nccl INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
  target_link_libraries(tessera::nccl INTERFACE ${NCCL_LIBRARY})
  # A program that makes no NCCL communicator starts where the library is missing.
  target_link_options(tessera::nccl INTERFACE -Wl,--as-needed)
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

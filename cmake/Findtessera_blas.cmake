# Matrix products on the CPU: BLIS. docs/benchmarks.md holds the comparison that chose it. Any build of it does:
# each call uses one thread, and the threads are ours.
find_path(BLIS_INCLUDE_DIR blis.h PATH_SUFFIXES x86_64-linux-gnu/blis-openmp blis-openmp blis)
find_library(BLIS_LIBRARY NAMES blis PATH_SUFFIXES blis-openmp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_blas REQUIRED_VARS BLIS_INCLUDE_DIR BLIS_LIBRARY)
if(tessera_blas_FOUND AND NOT TARGET tessera::blas)
  add_library(tessera::blas INTERFACE IMPORTED)
  target_include_directories(tessera::blas SYSTEM INTERFACE ${BLIS_INCLUDE_DIR})
  target_link_libraries(tessera::blas INTERFACE ${BLIS_LIBRARY})
  # Whether it has kernels for Intel's processors with AVX-512.
  file(STRINGS ${BLIS_INCLUDE_DIR}/blis.h skx REGEX "^#define BLIS_CONFIG_SKX" LIMIT_COUNT 1)
  string(LENGTH "${skx}" length)
  target_compile_definitions(tessera::blas INTERFACE
    TESSERA_BLAS_HAS_AVX512=$<BOOL:${length}>)
endif()
mark_as_advanced(BLIS_INCLUDE_DIR BLIS_LIBRARY)

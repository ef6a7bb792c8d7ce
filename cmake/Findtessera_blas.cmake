# Matrix products on the CPU: oneDNN for float32 and OpenBLAS for float64 (oneDNN has no dgemm).
# docs/benchmarks.md holds the comparison that chose them. OpenBLAS must be the OpenMP build: Debian's serial one
# is not safe to call from several threads.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES x86_64-linux-gnu/openblas-openmp openblas-openmp)
find_library(OPENBLAS_LIBRARY NAMES openblas PATH_SUFFIXES openblas-openmp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_blas REQUIRED_VARS DNNL_INCLUDE_DIR DNNL_LIBRARY OPENBLAS_INCLUDE_DIR
                                  OPENBLAS_LIBRARY)
if(tessera_blas_FOUND AND NOT TARGET tessera::blas)
  add_library(tessera::blas INTERFACE IMPORTED)
  target_include_directories(tessera::blas INTERFACE ${DNNL_INCLUDE_DIR} ${OPENBLAS_INCLUDE_DIR})
  target_link_libraries(tessera::blas INTERFACE ${DNNL_LIBRARY} ${OPENBLAS_LIBRARY})
endif()
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY OPENBLAS_INCLUDE_DIR OPENBLAS_LIBRARY)

# Headers of cuDNN and of its frontend, which tools/fetch_cuda_headers.sh puts below build/.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS "${CMAKE_SOURCE_DIR}/build/deps/cudnn_frontend/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_cudnn_frontend
  REQUIRED_VARS CUDNN_INCLUDE_DIR CUDNN_FRONTEND_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
    "The CUDA backend needs the headers of cuDNN 9 (install them beside CUDA, or set CUDNN_INCLUDE_DIR) and of its \
frontend: run tools/setup.sh cuda")
if(tessera_cudnn_frontend_FOUND AND NOT TARGET tessera::cudnn_frontend)
  add_library(tessera::cudnn_frontend INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::cudnn_frontend SYSTEM INTERFACE
    ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_FRONTEND_INCLUDE_DIR)

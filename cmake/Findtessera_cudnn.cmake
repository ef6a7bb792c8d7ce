# Attention on GPUs: cuDNN, and the headers of its frontend, which tools/fetch_cuda_headers.sh puts below build/.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS "${CMAKE_SOURCE_DIR}/build/deps/cudnn_frontend/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_cudnn
  REQUIRED_VARS CUDNN_INCLUDE_DIR CUDNN_LIBRARY CUDNN_FRONTEND_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
    "The CUDA backend needs cuDNN 9 (install it beside CUDA, or set CUDNN_INCLUDE_DIR and CUDNN_LIBRARY) and the \
headers of its frontend: run tools/setup.sh cuda")
if(tessera_cudnn_FOUND AND NOT TARGET tessera::cudnn)
  # Global, since test programs in other folders link what the kernels link.
  add_library(tessera::cudnn INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::cudnn SYSTEM INTERFACE ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
  # The frontend compiles a kernel of its own at run time, which attention does not use; its headers want the
  # compiler all the same.
  target_link_libraries(tessera::cudnn INTERFACE ${CUDNN_LIBRARY} CUDA::nvrtc)
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY CUDNN_FRONTEND_INCLUDE_DIR)

# Attention on GPUs: cuDNN. To compile against it: Findtessera_cudnn_frontend.cmake.
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_cudnn
  REQUIRED_VARS CUDNN_LIBRARY
  REASON_FAILURE_MESSAGE
    "The CUDA backend needs cuDNN 9: install it beside CUDA, or set CUDNN_INCLUDE_DIR and CUDNN_LIBRARY")
if(tessera_cudnn_FOUND AND NOT TARGET tessera::cudnn)
  # Global, since test programs in other folders link what the kernels link.
  add_library(tessera::cudnn INTERFACE IMPORTED GLOBAL)
  # The frontend compiles a kernel of its own at run time, which attention does not use; its headers want the
  # compiler all the same.
  target_link_libraries(tessera::cudnn INTERFACE ${CUDNN_LIBRARY} CUDA::nvrtc)
endif()
mark_as_advanced(CUDNN_LIBRARY)

# zstd, which compresses texts. Its own CMake file names other targets in every distribution.
find_path(ZSTD_INCLUDE_DIR zstd.h)
find_library(ZSTD_LIBRARY zstd)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_zstd
  REQUIRED_VARS ZSTD_LIBRARY ZSTD_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Texts are read from .zst files by zstd: run tools/setup.sh build")
if(tessera_zstd_FOUND AND NOT TARGET tessera::zstd)
  # Global, since programs in other folders link what the data module links.
  add_library(tessera::zstd INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::zstd SYSTEM INTERFACE ${ZSTD_INCLUDE_DIR})
  target_link_libraries(tessera::zstd INTERFACE ${ZSTD_LIBRARY})
endif()
mark_as_advanced(ZSTD_INCLUDE_DIR ZSTD_LIBRARY)

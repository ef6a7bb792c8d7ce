# hwloc, which knows the machine's cores and ties threads to them.
find_path(HWLOC_INCLUDE_DIR hwloc.h)
find_library(HWLOC_LIBRARY hwloc)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_hwloc
  REQUIRED_VARS HWLOC_LIBRARY HWLOC_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Ranks are tied to cores by hwloc: run tools/setup.sh build")
if(tessera_hwloc_FOUND AND NOT TARGET tessera::hwloc)
  # Global, since programs in other folders link what the launcher links.
  add_library(tessera::hwloc INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::hwloc SYSTEM INTERFACE ${HWLOC_INCLUDE_DIR})
  target_link_libraries(tessera::hwloc INTERFACE ${HWLOC_LIBRARY})
endif()
mark_as_advanced(HWLOC_INCLUDE_DIR HWLOC_LIBRARY)

# `cmake --install build/cpu --prefix DIR`: the program, the static libraries, the public headers, and the package that
# find_package(tessera) finds. A program that embeds the trainer links tessera::tessera and includes <tessera/tessera.h>
# (examples/embed).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tessera RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
get_property(modules GLOBAL PROPERTY tessera_modules)
install(TARGETS tessera_flags ${modules} EXPORT tessera_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(tessera_run PROPERTIES EXPORT_NAME tessera)

# tessera.h and all that it includes, which is plain data but for `train`. tests/install.sh compiles it.
install(DIRECTORY "${CMAKE_SOURCE_DIR}/tessera" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
  PATTERN tessera/tessera.h
  PATTERN tessera/options/*.h
  REGEX "/tessera/base/(activation|check|cp_comm_type|dtype|enumerators|host_device|router_spec|token_dispatcher)\\.h$"
  REGEX "/tessera/observe/metrics\\.h$"
  REGEX "/tessera/run/train\\.h$")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera_targets NAMESPACE tessera:: DESTINATION ${package})
configure_package_config_file(cmake/tesseraConfig.cmake.in "${CMAKE_BINARY_DIR}/tesseraConfig.cmake"
  INSTALL_DESTINATION ${package})
write_basic_package_version_file("${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
file(GLOB find_modules "${CMAKE_SOURCE_DIR}/cmake/Find*.cmake")
install(FILES ${find_modules} "${CMAKE_BINARY_DIR}/tesseraConfig.cmake" "${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake"
  DESTINATION ${package})

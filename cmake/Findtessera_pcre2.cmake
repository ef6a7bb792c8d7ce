# PCRE2 for 8-bit characters: regular expressions of tokenizers.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_pcre2
  REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Patterns of tokenizers need PCRE2: run tools/setup.sh build")
if(tessera_pcre2_FOUND AND NOT TARGET tessera::pcre2)
  # Global, since programs in other folders link what the tokenizers link.
  add_library(tessera::pcre2 INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE_DIR})
  target_link_libraries(tessera::pcre2 INTERFACE ${PCRE2_LIBRARY})
endif()
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_LIBRARY)

# utf8proc: Unicode's normal forms, lower case and graphemes, for tokenizers.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
find_library(UTF8PROC_LIBRARY utf8proc)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(tessera_utf8proc
  REQUIRED_VARS UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Tokenizers need utf8proc: run tools/setup.sh build")
if(tessera_utf8proc_FOUND AND NOT TARGET tessera::utf8proc)
  # Global, since programs in other folders link what the tokenizers link.
  add_library(tessera::utf8proc INTERFACE IMPORTED GLOBAL)
  target_include_directories(tessera::utf8proc SYSTEM INTERFACE ${UTF8PROC_INCLUDE_DIR})
  target_link_libraries(tessera::utf8proc INTERFACE ${UTF8PROC_LIBRARY})
endif()
mark_as_advanced(UTF8PROC_INCLUDE_DIR UTF8PROC_LIBRARY)

# One module, one target: tessera_library(nn SOURCES ... LINKS ...) makes the static library tessera_nn.
# Who may include whom is held by tools/check_layers.py.

# What all modules and the programs that link them are compiled with.
add_library(tessera_flags INTERFACE)
target_include_directories(tessera_flags INTERFACE
  "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include>")
target_compile_features(tessera_flags INTERFACE cxx_std_20)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

# Warnings and what else concerns this tree alone, not a program that links an installed Tessera.
add_library(tessera_own_flags INTERFACE)
target_link_libraries(tessera_flags INTERFACE $<BUILD_INTERFACE:tessera_own_flags>)
target_compile_options(tessera_own_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these in its own standard library when it inlines deeply (GCC bugs 105329, 105562).
  target_compile_options(tessera_own_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow -Wno-stringop-overread>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # A loop that clang cannot vectorise in some instantiation (double, 16-bit) is not a mistake.
  target_compile_options(tessera_own_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-pass-failed>)
endif()
if(TESSERA_FUZZ)
  # Coverage of the libraries themselves is what guides the fuzzer.
  target_compile_options(tessera_own_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()

# Headers that most sources include are compiled once: that is half of the time that g++ takes. Sources include what
# they use all the same (`tools/lint.sh --all` reads them without this). clang refuses what was compiled with other
# options.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
set(tessera_common_headers
  <fmt/core.h> <algorithm> <functional> <map> <memory> <optional> <span> <string> <vector>)

# Unity build: CMake compiles several sources of a module as one, in two thirds of the time. Local names must therefore
# be unique within a module (tools/check_local_names.py checks that). `tools/lint.sh --all` turns it off
# (-DTESSERA_TOGETHER=OFF) to read each source with its own includes.
option(TESSERA_TOGETHER "Compile several sources of a module at a time" ON)
function(tessera_together target)
  if(TESSERA_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A class of one source with a member of that source's own types; g++ takes the source for a header.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
    endif()
  endif()
endfunction()

# tessera_precompiled(target FIRST headers...): the first target of a kind compiles them, the others take them from it.
function(tessera_precompiled target first)
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

function(tessera_library name)
  cmake_parse_arguments(ARG "NO_COMMON_HEADERS" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  set_property(GLOBAL APPEND PROPERTY tessera_modules tessera_${name})  # installed together
  target_link_libraries(tessera_${name} PUBLIC tessera_flags ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(NOT ARG_NO_COMMON_HEADERS)
    tessera_precompiled(tessera_${name} tessera_base ${tessera_common_headers})
  endif()
  tessera_together(tessera_${name})
endfunction()

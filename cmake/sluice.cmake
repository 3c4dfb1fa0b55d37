# What every target of Sluice is compiled with.
add_library(sluice_options INTERFACE)
target_compile_options(sluice_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type
  -fno-strict-aliasing -fno-omit-frame-pointer -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
target_include_directories(sluice_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of its own coroutine frames and of std::expected's storage.
  target_compile_options(sluice_options INTERFACE -fcoroutines -Wno-maybe-uninitialized -Wno-mismatched-new-delete
    -Wno-shadow)  # GCC takes a parameter for a member's shadow where it only initialises it
endif()
if(SLUICE_UNITY)
  target_compile_options(sluice_options INTERFACE -Wno-shadow)  # it would compare sources that only share a batch
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_FUZZ)
  # What is compiled for the fuzz targets serves the tests too. These do without the callbacks at each comparison, which take
  # a third of their time; the preset fuzz, for long runs, has them.
  if(SLUICE_SANITIZE)
    target_compile_options(sluice_options INTERFACE -fsanitize-coverage=inline-8bit-counters,pc-table)
  else()
    target_compile_options(sluice_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
    target_link_options(sluice_options INTERFACE -fsanitize=address,undefined)
  endif()
endif()
if(SLUICE_SANITIZE MATCHES "undefined")
  # ASan tells of null pointers and of ends of objects too; asking twice is a tenth of the compile time.
  target_compile_options(sluice_options INTERFACE -fno-sanitize=null,object-size,vptr)
endif()

# Adds base/version.h's definitions to a target; each build asks for the commit again.
function(sluice_version target)
  set(file ${PROJECT_BINARY_DIR}/generated/version.cc)
  add_custom_target(sluice_commit BYPRODUCTS ${file} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION} -D OUT=${file}
            -P ${PROJECT_SOURCE_DIR}/cmake/version.cmake)
  target_sources(${target} PRIVATE ${file})
  add_dependencies(${target} sluice_commit)
endfunction()

# Half of a test's compile time is its headers: the standard's, GoogleTest's and the loop's are read once for all tests.
# Sanitized, most of the rest is the optimiser's, and a test gains nothing by it: the modules that it tests keep their flags.
if(SLUICE_TESTS AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_package(GTest REQUIRED)
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)  # without the path of the header
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "")
  function(sluice_add_precompiled target)
    add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/precompile)
    target_link_libraries(${target} PRIVATE sluice_options GTest::gtest)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp" ${ARGN})
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <algorithm> <array> <chrono> <cstring> <deque> <expected>
      <functional> <map> <memory> <optional> <random> <span> <string> <string_view> <thread> <variant> <vector>
      <core/reactor.h> <core/task.h>)
  endfunction()
  if(SLUICE_SANITIZE)
    sluice_add_precompiled(sluice_modules_pch)
    sluice_add_precompiled(sluice_tests_pch -O0)
  else()
    sluice_add_precompiled(sluice_tests_pch)
    add_library(sluice_modules_pch ALIAS sluice_tests_pch)
  endif()
endif()
# The headers of `from`, sluice_tests_pch or sluice_modules_pch.
function(sluice_precompiled target from)
  if(TARGET ${from})
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    if(SLUICE_SANITIZE AND from STREQUAL "sluice_tests_pch")
      target_compile_options(${target} PRIVATE -O0)
    endif()
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# ThreadSanitizer sees nothing in a test of one thread: of a module's tests, leaves those that name what has several. What
# most of the modules above core and sql have of threads is core's pool; a few have cores of their own.
function(sluice_keep_threaded module list)
  set(threads "<thread>|\"core/(blocking_pool|core|mailbox|mesh|spsc_ring)\\.h\"|\".*sqlite/.*\"")
  if(NOT module MATCHES "^(core|sql)$")
    set(threads "\"core/core\\.h\"")
  endif()
  set(kept)
  foreach(test IN LISTS ${list})
    file(STRINGS ${test} threaded REGEX "^#include (${threads})")
    if(threaded)
      list(APPEND kept ${test})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()

# Writes sources that include those of the list, twelve each, and puts them into the list. They name no folder of this
# machine, unlike those of CMake's UNITY_BUILD, so the compiler's cache serves every checkout.
function(sluice_batches module list)
  set(batches)
  set(rest ${${list}})
  while(rest)
    list(SUBLIST rest 0 12 batch)
    list(REMOVE_ITEM rest ${batch})
    list(TRANSFORM batch REPLACE "^${PROJECT_SOURCE_DIR}/src/(.*)$" "#include \"\\1\"\n")
    list(LENGTH batches index)
    list(JOIN batch "" text)
    list(APPEND batches ${PROJECT_BINARY_DIR}/unity/${module}_${index}.cc)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/unity/${module}_${index}.cc CONTENT "${text}")
  endwhile()
  set(${list} ${batches} PARENT_SCOPE)
endfunction()

# A web page of the module, src/a/b.html, becomes the string literal in "a/b.html.inc".
function(sluice_embed_pages module)
  file(GLOB_RECURSE pages CONFIGURE_DEPENDS src/${module}/*.html)
  foreach(page IN LISTS pages)
    string(REPLACE "${PROJECT_SOURCE_DIR}/src/" "${PROJECT_BINARY_DIR}/pages/" literal ${page}.inc)
    add_custom_command(OUTPUT ${literal} DEPENDS ${page} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
      COMMAND ${CMAKE_COMMAND} -D FROM=${page} -D TO=${literal} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
    target_sources(sluice_${module} PRIVATE ${literal})
    target_include_directories(sluice_${module} PRIVATE ${PROJECT_BINARY_DIR}/pages)
  endforeach()
endfunction()

# One folder of src/ is one static library; the tests and micro benchmarks that lie in it become test_NAME and bench_NAME.
function(sluice_module name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${name}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|/main)\\.cc$")
  if(SLUICE_SANITIZE STREQUAL "thread")
    sluice_keep_threaded(${name} tests)
  endif()

  if(sources)
    if(SLUICE_UNITY)
      sluice_batches(${name} sources)
    endif()
    add_library(sluice_${name} STATIC ${sources})
    target_link_libraries(sluice_${name} PRIVATE $<BUILD_INTERFACE:sluice_options>)
    target_link_libraries(sluice_${name} ${ARGN})
    sluice_embed_pages(${name})
    if(SLUICE_STATIC AND name MATCHES "^(app|login)$")
      target_compile_options(sluice_${name} PRIVATE -Oz)  # a third of the program, and little of it runs for a request
    elseif(SLUICE_STATIC AND name MATCHES "^(services|runtime|rooms)$")
      target_compile_options(sluice_${name} PRIVATE -Os)
    endif()
    # Not optimised, a module compiles in half the time: those that do little for each request, and all where threads are
    # looked for.
    if(SLUICE_SANITIZE STREQUAL "thread" OR (SLUICE_SANITIZE AND name MATCHES "^(files|gateway|app)$"))
      sluice_precompiled(sluice_${name} sluice_tests_pch)
    else()
      sluice_precompiled(sluice_${name} sluice_modules_pch)
    endif()
  else()
    string(REPLACE "PUBLIC" "INTERFACE" links "${ARGN}")
    string(REPLACE "PRIVATE" "INTERFACE" links "${links}")
    add_library(sluice_${name} INTERFACE)
    target_link_libraries(sluice_${name} ${links})
  endif()

  if(SLUICE_TESTS AND tests)
    find_package(GTest REQUIRED)
    enable_testing()
    add_executable(test_${name} ${tests})
    target_link_libraries(test_${name} PRIVATE sluice_${name} sluice_options GTest::gtest_main)
    sluice_precompiled(test_${name} sluice_tests_pch)
    set(test unit.${name})
    if(SLUICE_SANITIZE)
      string(APPEND test "@${SLUICE_SANITIZE}")
    endif()
    add_test(NAME ${test} COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/run_again.py gtest $<TARGET_FILE:test_${name}>)
    set_tests_properties(${test} PROPERTIES TIMEOUT 1800 LABELS unit)
  endif()
  if(SLUICE_BENCH AND benches)
    find_package(benchmark REQUIRED)
    add_executable(bench_${name} ${benches})
    target_link_libraries(bench_${name} PRIVATE sluice_${name} sluice_options benchmark::benchmark_main)
  endif()
endfunction()

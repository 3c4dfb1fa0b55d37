# What every target of Sluice is compiled with.
add_library(sluice_options INTERFACE)
target_compile_options(sluice_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror=return-type
  -fno-strict-aliasing -fno-omit-frame-pointer)
target_include_directories(sluice_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(sluice_options INTERFACE SLUICE_VERSION="${PROJECT_VERSION}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of its own coroutine frames and of std::expected's storage.
  target_compile_options(sluice_options INTERFACE -fcoroutines -Wno-maybe-uninitialized -Wno-mismatched-new-delete
    -Wno-shadow)  # GCC takes a parameter for a member's shadow where it only initialises it
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_FUZZ)  # what is compiled for the fuzz targets serves the tests too
  target_compile_options(sluice_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(sluice_options INTERFACE -fsanitize=address,undefined)
endif()

# Half of a test's compile time is its headers: the standard's, GoogleTest's and the loop's are read once for all tests.
if(SLUICE_TESTS AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_package(GTest REQUIRED)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tests_pch.cc CONTENT "")
  add_library(sluice_tests_pch OBJECT ${PROJECT_BINARY_DIR}/tests_pch.cc)
  target_link_libraries(sluice_tests_pch PRIVATE sluice_options GTest::gtest)
  target_compile_options(sluice_tests_pch PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(sluice_tests_pch PRIVATE <gtest/gtest.h> <algorithm> <array> <chrono> <cstring> <deque> <expected>
    <functional> <map> <memory> <optional> <random> <span> <string> <string_view> <thread> <variant> <vector>
    "${PROJECT_SOURCE_DIR}/src/core/reactor.h" "${PROJECT_SOURCE_DIR}/src/core/task.h")
endif()
function(sluice_precompiled target)
  if(TARGET sluice_tests_pch)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    target_precompile_headers(${target} REUSE_FROM sluice_tests_pch)
  endif()
endfunction()

# One folder of src/ is one static library; the tests and micro benchmarks that lie in it become test_NAME and bench_NAME.
function(sluice_module name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${name}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|/main)\\.cc$")

  if(sources)
    add_library(sluice_${name} STATIC ${sources})
    target_link_libraries(sluice_${name} PRIVATE sluice_options)
    target_link_libraries(sluice_${name} ${ARGN})
    if(SLUICE_SANITIZE)  # twice built for the tests; what is shipped shows that every file includes what it needs
      sluice_precompiled(sluice_${name})
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
    sluice_precompiled(test_${name})
    set(test unit.${name})
    if(SLUICE_SANITIZE)
      string(APPEND test "@${SLUICE_SANITIZE}")
    endif()
    add_test(NAME ${test} COMMAND test_${name})
    set_tests_properties(${test} PROPERTIES TIMEOUT 300 LABELS unit ENVIRONMENT GTEST_BRIEF=1)
  endif()
  if(SLUICE_BENCH AND benches)
    find_package(benchmark REQUIRED)
    add_executable(bench_${name} ${benches})
    target_link_libraries(bench_${name} PRIVATE sluice_${name} sluice_options benchmark::benchmark_main)
  endif()
endfunction()

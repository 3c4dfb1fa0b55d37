# SLUICE_STATIC: the program needs glibc alone. Debian has static archives of all libraries but three: fmt and toml++ are
# used as headers, and simdjson is compiled from Debian's source package (scripts/simdjson-source).
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
set(SLUICE_FMT fmt::fmt-header-only)

add_library(PkgConfig::tomlplusplus INTERFACE IMPORTED)
target_compile_definitions(PkgConfig::tomlplusplus INTERFACE TOML_HEADER_ONLY=1)

set(SIMDJSON_SOURCE "" CACHE PATH "The unpacked source package of simdjson")
if(NOT EXISTS ${SIMDJSON_SOURCE}/src/simdjson.cpp)
  message(FATAL_ERROR "SIMDJSON_SOURCE names no source of simdjson: run scripts/simdjson-source FOLDER, or `make package`")
endif()
add_library(sluice_simdjson STATIC ${SIMDJSON_SOURCE}/src/simdjson.cpp)
# Of its copies for instruction sets, those for AVX2 and for any CPU are enough.
target_compile_definitions(sluice_simdjson PRIVATE SIMDJSON_IMPLEMENTATION_ICELAKE=0 SIMDJSON_IMPLEMENTATION_WESTMERE=0)
target_include_directories(sluice_simdjson PRIVATE ${SIMDJSON_SOURCE}/src PUBLIC $<BUILD_INTERFACE:${SIMDJSON_SOURCE}/include>)
add_library(simdjson::simdjson INTERFACE IMPORTED)
target_link_libraries(simdjson::simdjson INTERFACE sluice_simdjson)

add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections,--icf=safe)
add_compile_options(-ffunction-sections -fdata-sections)

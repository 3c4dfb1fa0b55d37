# Messages in FlatBuffers.
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
mark_as_advanced(FLATBUFFERS_INCLUDE_DIR)

# sluice_flatbuffers(TARGET name SCHEMAS path ...)
#
# Generates the C++ of schemas before the target and those that link it compile. They include it by the path of the
# schema: "msg/test_messages.fbs.h" for src/msg/test_messages.fbs, and outside of src/, "PATH.h" for the path as given.
function(sluice_flatbuffers)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "SCHEMAS")
  if(NOT arg_TARGET OR NOT arg_SCHEMAS OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "usage: sluice_flatbuffers(TARGET name SCHEMAS path ...)")
  endif()
  find_program(FLATC flatc REQUIRED)
  mark_as_advanced(FLATC)
  set(folder ${PROJECT_BINARY_DIR}/generated/${arg_TARGET})
  set(schemas ${arg_SCHEMAS})
  list(TRANSFORM schemas PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set(headers)
  foreach(path schema IN ZIP_LISTS arg_SCHEMAS schemas)
    # The verifier of a nested buffer would have limits of its own.
    file(STRINGS ${schema} nested REGEX nested_flatbuffer)
    if(nested)
      message(FATAL_ERROR "${schema}: nested_flatbuffer is not allowed: its limits cannot be set")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schema})
    if(CMAKE_CURRENT_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
      string(REGEX REPLACE "^src/" "" path ${path})
    endif()
    cmake_path(GET path PARENT_PATH parent)
    add_custom_command(OUTPUT ${folder}/${path}.h
      COMMAND ${FLATC} --cpp --scoped-enums --filename-suffix .fbs --filename-ext h -I ${PROJECT_SOURCE_DIR}/src
              -o ${folder}/${parent} ${schema}
      DEPENDS ${schemas} COMMENT "Generating ${path}.h" VERBATIM)
    list(APPEND headers ${folder}/${path}.h)
  endforeach()
  add_custom_target(${arg_TARGET}_schemas DEPENDS ${headers})
  add_dependencies(${arg_TARGET} ${arg_TARGET}_schemas)
  target_include_directories(${arg_TARGET} SYSTEM PUBLIC $<BUILD_INTERFACE:${folder}> ${FLATBUFFERS_INCLUDE_DIR})
endfunction()

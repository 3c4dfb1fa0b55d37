# `cmake --install`: the program, and the library for find_package(sluice).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# sluice_install(module ...)
#
# Installs headers and static libraries of these modules. Each becomes a target sluice::MODULE; its headers are included
# as in the tree: "services/host.h".
function(sluice_install)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
  foreach(name IN LISTS ARGN)
    set_target_properties(sluice_${name} PROPERTIES EXPORT_NAME ${name})
    list(APPEND targets sluice_${name})
    install(DIRECTORY src/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice COMPONENT dev FILES_MATCHING PATTERN *.h
      REGEX "/test_[a-z_]*\\.h$|_(for_tests|fixture)\\.h$" EXCLUDE)
  endforeach()
  install(TARGETS ${targets} EXPORT sluice ARCHIVE COMPONENT dev INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice)
  install(EXPORT sluice NAMESPACE sluice:: DESTINATION ${package} FILE sluiceTargets.cmake COMPONENT dev)

  # All modules link sluice_base, so this reaches every target that links one of them.
  target_compile_features(sluice_base PUBLIC cxx_std_23)
  target_compile_options(sluice_base INTERFACE $<INSTALL_INTERFACE:-fno-strict-aliasing>)
  get_target_property(sanitizers sluice_options INTERFACE_LINK_OPTIONS)
  if(sanitizers)
    target_compile_options(sluice_base INTERFACE "$<INSTALL_INTERFACE:${sanitizers}>")
    target_link_options(sluice_base INTERFACE "$<INSTALL_INTERFACE:${sanitizers}>")
  endif()

  configure_package_config_file(cmake/sluiceConfig.cmake.in sluiceConfig.cmake INSTALL_DESTINATION ${package}
    NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/flatbuffers.cmake DESTINATION ${package} COMPONENT dev)
endfunction()

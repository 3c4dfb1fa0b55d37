# Read by cpack before each generator runs.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_COMPONENTS_ALL program system dev)
  set(CPACK_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY OFF)
  set(CPACK_SET_DESTDIR ON)  # /etc and /lib are not below the prefix
endif()

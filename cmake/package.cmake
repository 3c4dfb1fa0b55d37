# Packages (`make package`): a tarball, a .deb, one with the C++ library, and the debug symbols.

# sluice_package()
function(sluice_package)
  # From the command line's own declaration, and so when the program is there.
  install(CODE [[
    set(share "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
    foreach(text "completion bash>bash-completion/completions/sluice" "completion zsh>zsh/vendor-completions/_sluice"
                 "completion fish>fish/vendor_completions.d/sluice.fish" "man>man/man1/sluice.1")
      string(REGEX MATCH "(.*)>(.*)" text ${text})
      string(REPLACE " " ";" words ${CMAKE_MATCH_1})
      get_filename_component(folder ${share}/${CMAKE_MATCH_2} DIRECTORY)
      file(MAKE_DIRECTORY ${folder})
      execute_process(COMMAND $<TARGET_FILE:sluice> ${words} OUTPUT_FILE ${share}/${CMAKE_MATCH_2} COMMAND_ERROR_IS_FATAL ANY)
    endforeach()]] COMPONENT program)
  install(FILES LICENSE CHANGELOG.md DESTINATION share/doc/sluice COMPONENT program)
  if(SLUICE_STATIC)
    sluice_package_static()
  endif()
endfunction()

function(sluice_package_static)
  # The licences of what the program has inside.
  foreach(library libargon2-dev libbrotli-dev libc-ares-dev libcli11-dev libcrypt-dev libdeflate-dev libfmt-dev libidn-dev
                  libnghttp2-dev libre2-dev libsimdjson-dev libsqlite3-dev libssl-dev libstdc++-12-dev libtomlplusplus-dev
                  liburing-dev libxxhash-dev libzstd-dev zlib1g-dev)
    install(FILES /usr/share/doc/${library}/copyright DESTINATION share/doc/sluice/licences RENAME ${library} COMPONENT program)
  endforeach()

  # The debug symbols lie apart; gdb finds them beside the program.
  add_custom_command(TARGET sluice POST_BUILD VERBATIM
    COMMAND objcopy --only-keep-debug --compress-debug-sections $<TARGET_FILE:sluice> $<TARGET_FILE:sluice>.debug
    COMMAND strip --strip-all --remove-section=.comment $<TARGET_FILE:sluice>
    COMMAND ${CMAKE_COMMAND} -E chdir $<TARGET_FILE_DIR:sluice> objcopy --add-gnu-debuglink=sluice.debug sluice)
  install(FILES $<TARGET_FILE:sluice>.debug DESTINATION bin COMPONENT debug)

  install(CODE [[
    file(GLOB archives "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/libsluice_*.a")
    execute_process(COMMAND strip --strip-debug ${archives} COMMAND_ERROR_IS_FATAL ANY)]] COMPONENT dev)

  # The .deb has them in /etc and /lib; in the tarball they are samples.
  install(FILES packaging/sluice.toml packaging/sluice.service packaging/sluice.socket DESTINATION share/sluice
          COMPONENT samples EXCLUDE_FROM_ALL)
  install(FILES packaging/sluice.toml DESTINATION /etc/sluice COMPONENT system EXCLUDE_FROM_ALL)
  install(FILES packaging/sluice.service DESTINATION /lib/systemd/system COMPONENT system EXCLUDE_FROM_ALL)
  install(FILES packaging/sluice.socket DESTINATION share/doc/sluice/examples COMPONENT system EXCLUDE_FROM_ALL)

  set(CPACK_PACKAGE_VENDOR "Sluice")
  set(CPACK_PACKAGE_CONTACT "The Sluice developers <sluice@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "databases, files and services behind one HTTP endpoint")
  set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/cpack.cmake)
  set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
  set(CPACK_VERBATIM_VARIABLES ON)
  foreach(component program samples system)
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_GROUP sluice)
  endforeach()
  set(CPACK_COMPONENT_DEBUG_GROUP debug)
  set(CPACK_COMPONENT_DEV_GROUP dev)
  set(CPACK_COMPONENTS_ALL program samples debug)
  set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)

  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_ARCHIVE_THREADS 0)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(name sluice-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_PACKAGE_FILE_NAME ${name})
  set(CPACK_ARCHIVE_SLUICE_FILE_NAME ${name})
  set(CPACK_ARCHIVE_DEBUG_FILE_NAME ${name}-debug)

  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
  set(CPACK_DEBIAN_SLUICE_PACKAGE_NAME sluice)
  set(CPACK_DEBIAN_SLUICE_PACKAGE_SECTION httpd)
  set(CPACK_DEBIAN_SLUICE_PACKAGE_DEPENDS adduser)
  set(CPACK_DEBIAN_SLUICE_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_SLUICE_PACKAGE_RECOMMENDS ca-certificates)
  set(control ${PROJECT_SOURCE_DIR}/packaging/debian)
  set(CPACK_DEBIAN_SLUICE_PACKAGE_CONTROL_EXTRA ${control}/conffiles ${control}/postinst ${control}/prerm ${control}/postrm)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  set(CPACK_COMPONENT_GROUP_SLUICE_DESCRIPTION "Serves SQL of a configuration as HTTP resources on SQLite and PostgreSQL, tables from memory, files, and other servers
 behind policies.")
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME libsluice-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libargon2-dev, libbrotli-dev, libc-ares-dev, libcli11-dev, libcrypt-dev, libdeflate-dev, libflatbuffers-dev, libfmt-dev, libidn-dev, libnghttp2-dev, libre2-dev, libsimdjson-dev, libsqlite3-dev, libssl-dev, libtomlplusplus-dev, liburing-dev, libxxhash-dev, libzstd-dev, zlib1g-dev, pkg-config, flatbuffers-compiler")
  set(CPACK_COMPONENT_GROUP_DEV_DESCRIPTION "The C++ library: message services, alone or in a program that has all of sluice. Headers, static libraries, and find_package(sluice).")
  include(CPack)
endfunction()

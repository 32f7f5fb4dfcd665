# Debian packages. `cmake --build ... --target package` builds everything and packs it. To build only what is
# packed: `cmake --build ... --target packaged`, then `cpack -G DEB` in the build folder.
# tools/dev/package-test does the latter and tests the packages.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME urtrs)
set(CPACK_PACKAGE_VENDOR urtrs)
set(URTRS_PACKAGE_CONTACT "urtrs developers <urtrs@example.org>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_PACKAGE_CONTACT "${URTRS_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
# Install to the final prefix with DESTDIR, because the systemd units contain the prefix and the configuration is
# outside it.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL "")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(debian_version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(debian_files ${CMAKE_CURRENT_LIST_DIR}/debian)
string(TIMESTAMP debian_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${debian_files}/shlibs.in ${PROJECT_BINARY_DIR}/debian/shlibs @ONLY)
configure_file(${debian_files}/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nf changelog.Debian WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/debian
  COMMAND_ERROR_IS_FATAL ANY)

# urtrs_package(COMPONENT package-name SECTION s SUMMARY text DESCRIPTION text [DEPENDS text] [RECOMMENDS text] [SHLIBDEPS]
#     [ANY_ARCHITECTURE]): defines the Debian package of a component. SHLIBDEPS: add the dependencies that
#     dpkg-shlibdeps finds. Files of cmake/debian/COMPONENT go into its control archive, except lintian-overrides.
macro(urtrs_package COMPONENT PACKAGE)
  cmake_parse_arguments(ARG "SHLIBDEPS;ANY_ARCHITECTURE" "SECTION;SUMMARY;DESCRIPTION;DEPENDS;RECOMMENDS" "" ${ARGN})
  install(FILES ${debian_files}/copyright ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${PACKAGE} COMPONENT ${COMPONENT} EXCLUDE_FROM_ALL)
  if(EXISTS ${debian_files}/${COMPONENT}/lintian-overrides)
    install(FILES ${debian_files}/${COMPONENT}/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
      RENAME ${PACKAGE} COMPONENT ${COMPONENT} EXCLUDE_FROM_ALL)
  endif()
  file(GLOB scripts ${debian_files}/${COMPONENT}/*)
  list(FILTER scripts EXCLUDE REGEX "lintian-overrides$")
  string(TOUPPER CPACK_DEBIAN_${COMPONENT} package)
  list(APPEND CPACK_COMPONENTS_ALL ${COMPONENT})
  set(${package}_PACKAGE_NAME ${PACKAGE})
  set(${package}_PACKAGE_SECTION ${ARG_SECTION})
  set(${package}_PACKAGE_DEPENDS "${ARG_DEPENDS}")
  set(${package}_PACKAGE_RECOMMENDS "${ARG_RECOMMENDS}")
  set(${package}_PACKAGE_SHLIBDEPS ${ARG_SHLIBDEPS})
  set(${package}_PACKAGE_CONTROL_EXTRA "${scripts}")
  set(${package}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_DESCRIPTION}")
  if(ARG_ANY_ARCHITECTURE)
    set(${package}_PACKAGE_ARCHITECTURE all)
  endif()
endmacro()

# Package managers show these lines unchanged, so they have at most 79 characters.
set(about "RTRS is Linux's RDMA transport for block IO, and RNBD the network block
device on top of it. urtrs implements both in user space, byte-compatible
with the kernel's protocol 2.0.

")
urtrs_package(libraries liburtrs0 SECTION libs SHLIBDEPS
  RECOMMENDS "libfabric1"
  SUMMARY "RTRS/RNBD in user space - shared libraries"
  DESCRIPTION "${about}This package has the shared libraries that applications link: the protocol
(liburtrs), its transports over TCP (liburtrs-tcp), libfabric
(liburtrs-libfabric) and rdma-core (liburtrs-verbs), and the interface for
programs in C (liburtrs-c).")
list(APPEND CPACK_DEBIAN_LIBRARIES_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs)
urtrs_package(devel liburtrs-dev SECTION libdevel
  SUMMARY "RTRS/RNBD in user space - development files"
  DEPENDS "liburtrs0 (= ${debian_version}), libexpected-dev"
  RECOMMENDS "libfabric-dev, libibverbs-dev, librdmacm-dev, libssl-dev, libboost1.81-dev"
  DESCRIPTION "${about}This package has headers, static libraries, a CMake package and files for
pkg-config.")
urtrs_package(python python3-urtrs SECTION python ANY_ARCHITECTURE
  SUMMARY "RTRS/RNBD in user space - Python 3 module"
  DEPENDS "python3 (>= 3.10), liburtrs0 (>= ${PROJECT_VERSION})"
  DESCRIPTION "${about}This package has a module that reads and writes devices of an RNBD server,
from and into any buffer, by the shared library for programs in C.")
urtrs_package(tools urtrs-tools SECTION net SHLIBDEPS
  RECOMMENDS "libfabric1"
  SUMMARY "RTRS/RNBD in user space - tools"
  DESCRIPTION "${about}This package has tools that measure (urtrs-perf), test a peer
(urtrs-conform), judge and replay recorded sessions (urtrs-replay), and
simulate sessions with faults (urtrs-sim).")
urtrs_package(server urtrs-server SECTION net SHLIBDEPS
  SUMMARY "RTRS/RNBD in user space - server for disks and images"
  DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers"
  RECOMMENDS "libfabric1"
  DESCRIPTION "${about}This package has urtrsd, which exports files and block devices, as a service
that is neither enabled nor started by the installation.")
urtrs_package(nbdkit nbdkit-plugin-urtrs SECTION net SHLIBDEPS
  SUMMARY "RTRS/RNBD in user space - plugin for nbdkit"
  DEPENDS "nbdkit (>= 1.32), systemd | systemd-standalone-sysusers | systemd-sysusers"
  RECOMMENDS "nbd-client | libnbd-bin, urtrs-tools, libfabric1"
  DESCRIPTION "${about}This package has a plugin for nbdkit, which makes a device that an RNBD
server exports available to NBD clients, over several paths, and urtrs-mapd, a
service that keeps such devices mapped. It is neither enabled nor started by
the installation.")
urtrs_package(doc urtrs-doc SECTION doc ANY_ARCHITECTURE
  SUMMARY "RTRS/RNBD in user space - documentation"
  DESCRIPTION "${about}This package has the documentation: architecture, protocol, configuration,
security, recording and replay.")

# Builds everything that is packaged, without tests.
get_property(programs GLOBAL PROPERTY URTRS_PROGRAMS)
add_custom_target(packaged DEPENDS ${programs} ${component_libraries} ${URTRS_MAN_PAGES})
include(CPack)

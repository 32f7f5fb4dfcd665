# Installs the development files for applications: the headers listed in public_headers.txt, under include/urtrs; the
# libraries of libraries.cmake; a CMake package (find_package(urtrs), targets urtrs::core, urtrs::libfabric, ...) and
# pkg-config files (urtrs, urtrs-libfabric, ...). Included last, after all targets are defined.
include(CMakePackageConfigHelpers)
include(cmake/libraries.cmake)

get_property(URTRS_COMPONENTS GLOBAL PROPERTY URTRS_COMPONENTS)
get_property(component_libraries GLOBAL PROPERTY URTRS_COMPONENT_LIBRARIES)
set(URTRS_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/urtrs)

# The headers are copied at install time, so that they match the source tree at that time.
set(URTRS_HEADERS_DIR ${PROJECT_BINARY_DIR}/installed_headers/urtrs)
list(JOIN URTRS_COMPONENTS " " components)
install(CODE "execute_process(COMMAND ${URTRS_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/install_headers.py
  ${PROJECT_SOURCE_DIR} ${URTRS_HEADERS_DIR} system ${components} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT devel)
install(DIRECTORY ${URTRS_HEADERS_DIR} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel)
# The header for programs in C.
install(FILES backends/bindings/c/urtrs.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/urtrs COMPONENT devel)

# For every Python 3 of the system, as in Debian's packages. With another prefix, add the folder to PYTHONPATH.
install(FILES backends/bindings/python/urtrs.py backends/bindings/python/_urtrs_c.py backends/bindings/python/urtrs_trace.py DESTINATION lib/python3/dist-packages COMPONENT python)

# One export set for each component and kind, so that an application that uses only the core does not need libfabric.
set(URTRS_CONFIG_NEEDS "")
foreach(component IN LISTS URTRS_COMPONENTS)
  get_property(kinds GLOBAL PROPERTY URTRS_COMPONENT_${component}_KINDS)
  get_property(needs GLOBAL PROPERTY URTRS_COMPONENT_${component}_NEEDS)
  string(TOLOWER "${kinds}" kinds)
  foreach(kind IN LISTS kinds)
    install(TARGETS urtrs_${component}_${kind} EXPORT urtrs-${component}-${kind}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries NAMELINK_COMPONENT devel)
    install(EXPORT urtrs-${component}-${kind} NAMESPACE urtrs:: DESTINATION ${URTRS_CMAKE_DIR} COMPONENT devel)
  endforeach()
  list(FILTER needs INCLUDE REGEX "::")
  string(APPEND URTRS_CONFIG_NEEDS "set(_urtrs_${component}_kinds \"${kinds}\")\n"
    "set(_urtrs_${component}_needs \"${needs}\")\n")
  foreach(need IN LISTS needs)
    if(need MATCHES "^PkgConfig::(.+)$")
      get_property(modules GLOBAL PROPERTY URTRS_PKG_${CMAKE_MATCH_1})
      string(APPEND URTRS_CONFIG_NEEDS "set(_urtrs_modules_${CMAKE_MATCH_1} \"${modules}\")\n")
    endif()
  endforeach()
endforeach()
# Strip archives here: `cmake --install --strip` strips only programs and shared libraries.
foreach(library IN LISTS component_libraries)
  if(library MATCHES "_static$")
    get_target_property(name ${library} OUTPUT_NAME)
    install(CODE "if(CMAKE_INSTALL_DO_STRIP)
  execute_process(COMMAND ${CMAKE_STRIP} --strip-debug --enable-deterministic-archives
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/lib${name}.a\" COMMAND_ERROR_IS_FATAL ANY)
endif()" COMPONENT devel)
  endif()
endforeach()

configure_package_config_file(cmake/urtrsConfig.cmake.in ${PROJECT_BINARY_DIR}/urtrsConfig.cmake
  INSTALL_DESTINATION ${URTRS_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/urtrsConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/urtrsConfig.cmake ${PROJECT_BINARY_DIR}/urtrsConfigVersion.cmake
  DESTINATION ${URTRS_CMAKE_DIR} COMPONENT devel)

if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(URTRS_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(URTRS_PC_LIBDIR "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(URTRS_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  # Paths are relative to the .pc file, so that an installed tree can be moved.
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(URTRS_PC_PREFIX "\${pcfiledir}/${up}")
  set(URTRS_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(URTRS_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()

# Dependencies that only static linking needs are private, unless the component has no shared library.
function(urtrs_install_pc COMPONENT)
  get_property(URTRS_PC_NAME GLOBAL PROPERTY URTRS_COMPONENT_${COMPONENT}_LIBRARY)
  get_property(uses GLOBAL PROPERTY URTRS_COMPONENT_${COMPONENT}_USES)
  get_property(needs GLOBAL PROPERTY URTRS_COMPONENT_${COMPONENT}_NEEDS)
  get_property(kinds GLOBAL PROPERTY URTRS_COMPONENT_${COMPONENT}_KINDS)
  set(URTRS_PC_REQUIRES "")
  set(modules "")
  set(libs "")
  foreach(used IN LISTS uses)
    get_property(library GLOBAL PROPERTY URTRS_COMPONENT_${used}_LIBRARY)
    list(APPEND URTRS_PC_REQUIRES ${library})
  endforeach()
  list(JOIN URTRS_PC_REQUIRES ", " URTRS_PC_REQUIRES)
  foreach(need IN LISTS needs)
    if(need MATCHES "^PkgConfig::(.+)$")
      get_property(found GLOBAL PROPERTY URTRS_PKG_${CMAKE_MATCH_1})
      string(REGEX REPLACE "([<>=]+)" " \\1 " found "${found}")
      list(APPEND modules ${found})
    elseif(need STREQUAL "Threads::Threads")
      string(APPEND libs " -pthread")
    elseif(NOT need MATCHES "::")
      string(APPEND libs " -l${need}")
    endif()
  endforeach()
  list(JOIN modules ", " URTRS_PC_REQUIRES_PRIVATE)
  set(URTRS_PC_LIBS "-l${URTRS_PC_NAME}")
  if(COMPONENT STREQUAL "c")
    string(APPEND libs " -lstdc++ -lm")  # a C compiler does not link these by itself
  endif()
  set(URTRS_PC_LIBS_PRIVATE "${libs}")
  if(NOT "SHARED" IN_LIST kinds)
    string(APPEND URTRS_PC_LIBS "${libs}")
    set(URTRS_PC_LIBS_PRIVATE "")
  endif()
  configure_file(cmake/urtrs.pc.in ${PROJECT_BINARY_DIR}/${URTRS_PC_NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${URTRS_PC_NAME}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
endfunction()

foreach(component IN LISTS URTRS_COMPONENTS)
  urtrs_install_pc(${component})
endforeach()

# Check before the installation that everything is built (`tools/demo` builds only three programs), because a failure
# half-way would leave an incomplete installation.
set(built "")
get_property(programs GLOBAL PROPERTY URTRS_PROGRAMS)
foreach(target IN LISTS programs component_libraries)
  string(APPEND built "  \"$<TARGET_FILE:${target}>\"\n")
endforeach()
foreach(page IN LISTS URTRS_MAN_PAGES)
  string(APPEND built "  \"${page}\"\n")
endforeach()
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/check_built.cmake CONTENT "foreach(file IN ITEMS
${built})
  if(NOT EXISTS \"\${file}\")
    message(FATAL_ERROR \"\${file} is not built yet. Build and install in one step with
  cmake --build ${PROJECT_BINARY_DIR} --target install\")
  endif()
endforeach()
")

set(test_scripts ${PROJECT_SOURCE_DIR}/cmake/install_test)
# Installs to a temporary prefix and builds an external program against it.
add_test(NAME install_test COMMAND ${test_scripts}/run ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER})
add_test(NAME installed_headers_test COMMAND ${test_scripts}/headers ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER})
add_test(NAME exported_symbols_test COMMAND ${URTRS_PYTHON} -B ${test_scripts}/exported_symbols.py ${URTRS_SOVERSION}
  ${PROJECT_BINARY_DIR}/lib ${PROJECT_SOURCE_DIR}/backends/bindings/c/urtrs.h)
set_tests_properties(install_test installed_headers_test exported_symbols_test PROPERTIES TIMEOUT 600 LABELS lint)
# Both tests write the folder installed_headers of the build.
set_tests_properties(install_test installed_headers_test PROPERTIES RESOURCE_LOCK installation)

# Libraries that applications link, one per component. A part that needs a further system library is a separate
# component. They contain the objects of the small libraries used inside the tree, so that nothing is compiled twice.
#
# urtrs_component(NAME LIBRARY output-name PARTS target... [USES component...] [NEEDS target...] [EXPORTS file] [STATIC_ONLY])
#     PARTS: libraries of this tree; USES: components that it needs; NEEDS: system libraries;
#     EXPORTS: version script of the shared library, default: urtrs.map
set(URTRS_SOVERSION 0)
set(URTRS_VERSION_SCRIPTS ${CMAKE_CURRENT_LIST_DIR})

function(urtrs_component_library TARGET KIND OUTPUT EXPORTS PARTS)
  set(objects "")
  foreach(part IN LISTS PARTS)
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
  endforeach()
  add_library(${TARGET} ${KIND} ${objects})
  set_target_properties(${TARGET} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${OUTPUT}
    VERSION ${PROJECT_VERSION} SOVERSION ${URTRS_SOVERSION} LINK_DEPENDS ${URTRS_VERSION_SCRIPTS}/${EXPORTS}
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_compile_features(${TARGET} INTERFACE cxx_std_20)
  target_include_directories(${TARGET} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(KIND STREQUAL "SHARED")
    target_link_options(${TARGET} PRIVATE -Wl,--version-script=${URTRS_VERSION_SCRIPTS}/${EXPORTS} -Wl,--no-undefined
      # The library must never be unloaded, because a thread that waits for name resolution may still run.
      -Wl,-z,nodelete)
  endif()
endfunction()

function(urtrs_component NAME)
  cmake_parse_arguments(ARG "STATIC_ONLY" "LIBRARY;EXPORTS" "PARTS;NEEDS;USES" ${ARGN})
  if(NOT ARG_EXPORTS)
    set(ARG_EXPORTS urtrs.map)
  endif()
  set(kinds SHARED STATIC)
  if(ARG_STATIC_ONLY)
    set(kinds STATIC)
  endif()
  foreach(kind IN LISTS kinds)
    string(TOLOWER ${kind} suffix)
    set(target urtrs_${NAME}_${suffix})
    urtrs_component_library(${target} ${kind} ${ARG_LIBRARY} ${ARG_EXPORTS} "${ARG_PARTS}")
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${NAME})
    target_link_libraries(${target} PRIVATE ${ARG_NEEDS})
    if(ARG_STATIC_ONLY)
      # An application links the core that it selected (shared or static) and needs the system headers.
      target_link_libraries(${target} INTERFACE ${ARG_NEEDS} $<INSTALL_INTERFACE:urtrs::${ARG_USES}>)
    else()
      list(TRANSFORM ARG_USES REPLACE "(.+)" "urtrs_\\1_${suffix}" OUTPUT_VARIABLE used)
      target_link_libraries(${target} PUBLIC ${used})
    endif()
    set_property(GLOBAL APPEND PROPERTY URTRS_COMPONENT_LIBRARIES ${target})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY URTRS_COMPONENTS ${NAME})
  set_property(GLOBAL PROPERTY URTRS_COMPONENT_${NAME}_LIBRARY ${ARG_LIBRARY})
  set_property(GLOBAL PROPERTY URTRS_COMPONENT_${NAME}_USES "${ARG_USES}")
  set_property(GLOBAL PROPERTY URTRS_COMPONENT_${NAME}_NEEDS "${ARG_NEEDS}")
  set_property(GLOBAL PROPERTY URTRS_COMPONENT_${NAME}_KINDS "${kinds}")
endfunction()

urtrs_component(core LIBRARY urtrs
  PARTS urtrs_base urtrs_wire urtrs_proto urtrs_keyed urtrs_rnbd urtrs_record urtrs_driver urtrs_address urtrs_system)
if(LIBFABRIC_FOUND)
  urtrs_component(libfabric LIBRARY urtrs-libfabric USES core PARTS urtrs_libfabric
    NEEDS Threads::Threads ${CMAKE_DL_LIBS})
endif()
if(TLS_FOUND)
  set(tls_needs PkgConfig::TLS)
endif()
urtrs_component(tcp LIBRARY urtrs-tcp USES core PARTS urtrs_iwarp urtrs_tls_keys urtrs_tls urtrs_tcp_engine urtrs_tcp NEEDS ${tls_needs})
if(VERBS_FOUND)
  urtrs_component(verbs LIBRARY urtrs-verbs USES core PARTS urtrs_verbs NEEDS PkgConfig::VERBS)
endif()
if(Boost_FOUND)
  # Static only. Boost.Asio has state that must exist once per process (call stack of each thread, error categories) in
  # inline variables. A shared library that exports only namespace rtrs would have a second copy of them.
  urtrs_component(asio LIBRARY urtrs-asio USES core PARTS urtrs_asio NEEDS Boost::headers Threads::Threads STATIC_ONLY)
endif()
# For programs in C; exports no C++ symbols. Static programs also need the system libraries of the components in USES.
set(c_uses tcp)
set(c_needs ${tls_needs})
if(VERBS_FOUND)
  list(APPEND c_uses verbs)
  list(APPEND c_needs PkgConfig::VERBS)
endif()
urtrs_component(c LIBRARY urtrs-c USES ${c_uses} PARTS urtrs_option_table urtrs_c NEEDS ${c_needs} EXPORTS urtrs-c.map)

# The target headers_alone compiles each header by itself, because a unity build hides missing includes. Not part of
# `all`; `tools/test --full` builds it.
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  core/*.hpp backends/*.hpp sim/*.hpp conformance/*.hpp tools/*.hpp)
set(sources)
foreach(header IN LISTS headers)
  set(source ${PROJECT_BINARY_DIR}/headers_alone/${header}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
  list(APPEND sources ${source})
endforeach()
add_library(headers_alone OBJECT EXCLUDE_FROM_ALL ${sources})
set_target_properties(headers_alone PROPERTIES UNITY_BUILD OFF)
target_compile_options(headers_alone PRIVATE -fsyntax-only)
target_link_libraries(headers_alone PRIVATE urtrs_options urtrs_warnings GTest::gtest rapidcheck)
foreach(library LIBURING LIBFABRIC VERBS TLS LIBNBD NETLINK FUSE NBDKIT)
  if(TARGET PkgConfig::${library})
    target_link_libraries(headers_alone PRIVATE PkgConfig::${library})
  endif()
endforeach()

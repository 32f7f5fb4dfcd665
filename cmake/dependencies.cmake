# Dependencies. The first group is required. Each of the second group is optional and has a switch:
#     URTRS_WITH_<NAME> = AUTO (use it if found), ON (fail if missing), OFF (do not look for it).
# cmake/summary.cmake prints the result; the rest of the tree tests the *_FOUND variables set here.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
if(NOT TARGET rapidcheck)
  add_library(rapidcheck STATIC IMPORTED)
  set_target_properties(rapidcheck PROPERTIES IMPORTED_LOCATION ${RAPIDCHECK_LIBRARY})
endif()

set(URTRS_FEATURES "")

# urtrs_feature(NAME RESULT prefix PACKAGE debian-package GIVES text PKG module... | FIND package [version])
# Sets <RESULT>_FOUND and <RESULT>_VERSION in the scope of the caller, therefore a macro.
macro(urtrs_feature NAME)
  cmake_parse_arguments(FEATURE "" "RESULT;PACKAGE;GIVES" "PKG;FIND" ${ARGN})
  set(URTRS_WITH_${NAME} AUTO CACHE STRING "${FEATURE_GIVES}: AUTO, ON or OFF")
  set_property(CACHE URTRS_WITH_${NAME} PROPERTY STRINGS AUTO ON OFF)
  if(URTRS_WITH_${NAME} STREQUAL "AUTO" OR URTRS_WITH_${NAME})
    if(FEATURE_PKG)
      pkg_check_modules(${FEATURE_RESULT} QUIET IMPORTED_TARGET ${FEATURE_PKG})
      set_property(GLOBAL PROPERTY URTRS_PKG_${FEATURE_RESULT} "${FEATURE_PKG}")
    else()
      find_package(${FEATURE_FIND} QUIET)
    endif()
  else()
    set(${FEATURE_RESULT}_FOUND FALSE)
  endif()
  if(NOT ${FEATURE_RESULT}_FOUND AND NOT URTRS_WITH_${NAME} STREQUAL "AUTO" AND URTRS_WITH_${NAME})
    message(FATAL_ERROR "URTRS_WITH_${NAME}=ON, but it was not found. Install it: apt-get install ${FEATURE_PACKAGE}\n"
      "or configure with -DURTRS_WITH_${NAME}=AUTO to go without: ${FEATURE_GIVES}.")
  endif()
  list(APPEND URTRS_FEATURES ${NAME})
  set(URTRS_FEATURE_${NAME}_RESULT ${FEATURE_RESULT})
  set(URTRS_FEATURE_${NAME}_PACKAGE "${FEATURE_PACKAGE}")
  set(URTRS_FEATURE_${NAME}_GIVES "${FEATURE_GIVES}")
endmacro()

urtrs_feature(LIBFABRIC RESULT LIBFABRIC PACKAGE libfabric-dev PKG libfabric
  GIVES "backends/libfabric: real networks, urtrsd, urtrs-perf")
urtrs_feature(ASIO RESULT Boost PACKAGE libboost1.81-dev FIND Boost 1.81
  GIVES "backends/bindings/asio: reactor, timers, co_await (Boost.Asio 1.81)")
urtrs_feature(LIBURING RESULT LIBURING PACKAGE liburing-dev PKG liburing
  GIVES "urtrsd: exports through io_uring")
urtrs_feature(NBDKIT RESULT NBDKIT PACKAGE nbdkit-plugin-dev PKG nbdkit
  GIVES "nbdkit plugin: remote devices for NBD clients")
urtrs_feature(LIBNBD RESULT LIBNBD PACKAGE libnbd-dev PKG libnbd
  GIVES "urtrsd: exports that NBD servers hold")
urtrs_feature(NETLINK RESULT NETLINK PACKAGE libnl-genl-3-dev PKG libnl-genl-3.0
  GIVES "urtrs map --nbd: devices of the kernel")
urtrs_feature(FUSE RESULT FUSE PACKAGE libfuse3-dev PKG fuse3
  GIVES "urtrs-fs: the attributes of urtrsd as files")
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
urtrs_feature(SDT RESULT SDT PACKAGE systemtap-sdt-dev FIND SDT
  GIVES "static probes for bpftrace and perf")
urtrs_feature(VERBS RESULT VERBS PACKAGE "libibverbs-dev librdmacm-dev" PKG libibverbs librdmacm
  GIVES "backends/verbs: RDMA hardware, the kernel peer")
urtrs_feature(TLS RESULT TLS PACKAGE libssl-dev PKG openssl>=3.0
  GIVES "backends/platform/tls: the TCP fabric encrypted (TLS 1.3)")
urtrs_feature(BENCHMARK RESULT benchmark PACKAGE libbenchmark-dev FIND benchmark
  GIVES "benchmarks of the core and the simulator")

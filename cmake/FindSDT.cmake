# Finds sys/sdt.h, the macros for static probes.
find_path(SDT_INCLUDE_DIR sys/sdt.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SDT REQUIRED_VARS SDT_INCLUDE_DIR)

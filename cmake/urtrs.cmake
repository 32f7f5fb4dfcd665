# Helpers used by every CMakeLists.txt of the tree.
#
# urtrs_library(NAME SOURCES a.cpp b.cpp [DEPS lib...] [PURE])   a static library, target urtrs_NAME, alias urtrs::NAME
#     PURE: built without exceptions and RTTI, and its symbols are checked by the purity test.
# urtrs_test(NAME SOURCES a_test.cpp [DEPS lib...])              a GoogleTest program registered with CTest
# urtrs_program(NAME SOURCES main.cpp [DEPS lib...])             an installed command

option(URTRS_WERROR "Treat warnings as errors" ON)
set(URTRS_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")

add_library(urtrs_options INTERFACE)
target_include_directories(urtrs_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/urtrs>)
add_library(urtrs_warnings INTERFACE)
target_compile_options(urtrs_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wnull-dereference $<$<BOOL:${URTRS_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of g++ 12 on inlined std::optional / std::variant storage.
  target_compile_options(urtrs_warnings INTERFACE -Wno-null-dereference -Wno-maybe-uninitialized)
endif()
if(URTRS_SANITIZE)
  add_compile_options(-fsanitize=${URTRS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${URTRS_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND URTRS_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=function)
  endif()
endif()

function(urtrs_library NAME)
  cmake_parse_arguments(ARG "PURE" "" "SOURCES;DEPS" ${ARGN})
  add_library(urtrs_${NAME} STATIC ${ARG_SOURCES})
  add_library(urtrs::${NAME} ALIAS urtrs_${NAME})
  target_link_libraries(urtrs_${NAME} PUBLIC urtrs_options ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:urtrs_warnings>)
  if(ARG_PURE)
    target_compile_options(urtrs_${NAME} PRIVATE -fno-exceptions -fno-rtti)
  endif()
endfunction()

function(urtrs_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} urtrs_warnings GTest::gtest GTest::gtest_main rapidcheck)
  add_test(NAME ${NAME} COMMAND ${NAME})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 300 ENVIRONMENT "RC_PARAMS=seed=20261121;HFI_NO_BACKTRACE=1;IPATH_NO_BACKTRACE=1")
endfunction()

function(urtrs_program NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} urtrs_warnings)
  install(TARGETS ${NAME} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

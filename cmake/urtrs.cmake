# Helpers used by every CMakeLists.txt of the tree.
#
# urtrs_library(NAME SOURCES a.cpp b.cpp [DEPS lib...] [PURE])   a static library, target urtrs_NAME, alias urtrs::NAME
#     PURE: built without exceptions and RTTI; the purity test checks its symbols.
#     cmake/libraries.cmake combines the libraries under core/ and backends/ into those that applications link.
# urtrs_test(NAME SOURCES a_test.cpp [DEPS lib...] [SHARED objects...] [LABELS l...] [DEFINES d...] [RUNS program...]
#     [ALONE])
#     GoogleTest tests registered with CTest as NAME. The tests of a folder are one program. Each file uses its own
#     namespace, rtrs::...::a_test, because several files are compiled as one.
#     RUNS: programs that the tests start.
#     ALONE: a separate program: for tests that replace a global function, such as operator new, and for tests whose
#     cases are in SHARED objects.
#     LABELS: `tools/test` runs tests labelled `tsan` also in the TSan build, and `asan` also
#     in the build with address and undefined-behaviour sanitizers even without --full. Tests below core/ and sim/ have
#     `asan` automatically; other tests need it if they pass untrusted bytes to a parser or a machine.
#     SHARED: object libraries of urtrs_test_objects, with sources that several tests use.
# urtrs_test_objects(NAME SOURCES a.cpp [DEPS lib...])           objects compiled once, with the options of tests
# urtrs_python_test(NAME a_test.py [SERIAL] [TIMEOUT seconds] [LABELS l...])
#     a pytest file registered with CTest; it uses the programs of this build (tools/lib/testing/programs.py)
# urtrs_program(NAME SOURCES main.cpp [DEPS lib...] [COMPONENT c])   an installed program; default component: tools
# urtrs_runs_seldom()   for a folder and those below it: code that no IO and no simulated event passes is compiled with -O1,
#     which takes a third less time than -O2
# urtrs_bench(NAME SOURCES a.cpp [DEPS lib...])                 a Google Benchmark program; call only if it was found
# urtrs_fuzz_target(NAME [DEPS lib...])
#     NAME_fuzz.cpp with the fuzz function, and its corpus in the folder NAME. With URTRS_FUZZ, builds the libFuzzer
#     program NAME_fuzz. Other builds run the function on the corpus and on mutations of it (NAME_corpus_test).

option(URTRS_WERROR "Treat warnings as errors" ON)
option(URTRS_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(URTRS_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")

add_library(urtrs_options INTERFACE)
target_compile_features(urtrs_options INTERFACE cxx_std_20)
target_include_directories(urtrs_options INTERFACE ${PROJECT_SOURCE_DIR})
add_library(urtrs_warnings INTERFACE)
target_compile_options(urtrs_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wnull-dereference $<$<BOOL:${URTRS_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of g++ 12 on inlined std::optional / std::variant storage.
  target_compile_options(urtrs_warnings INTERFACE -Wno-null-dereference -Wno-maybe-uninitialized)
endif()

if(URTRS_SANITIZE)
  add_compile_options(-fsanitize=${URTRS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${URTRS_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND URTRS_SANITIZE MATCHES "undefined")
    # clang 14 cannot compile coroutines with this check.
    add_compile_options(-fno-sanitize=function)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND URTRS_SANITIZE MATCHES "thread")
    # g++ warns that TSan does not support memory fences, which Asio uses.
    add_compile_options(-Wno-tsan)
  endif()
endif()
if(URTRS_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "URTRS_FUZZ needs clang: configure with the preset `fuzz` or -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

function(urtrs_library NAME)
  cmake_parse_arguments(ARG "PURE" "" "SOURCES;DEPS" ${ARGN})
  add_library(urtrs_${NAME} STATIC ${ARG_SOURCES})
  add_library(urtrs::${NAME} ALIAS urtrs_${NAME})
  target_link_libraries(urtrs_${NAME} PUBLIC urtrs_options ${ARG_DEPS} PRIVATE urtrs_warnings)
  # Exported functions are never interposed at load time, so let g++ inline them within a shared library.
  target_compile_options(urtrs_${NAME} PRIVATE -fno-semantic-interposition)
  if(ARG_PURE)
    target_compile_options(urtrs_${NAME} PRIVATE -fno-exceptions -fno-rtti)
    set_property(GLOBAL APPEND PROPERTY URTRS_PURE_LIBRARIES urtrs_${NAME})
  endif()
endfunction()

# Each target builds only the test programs with one label.
add_custom_target(tsan_tests)
add_custom_target(pure_tests)
add_custom_target(asan_tests)

# With a label, e.g. -DURTRS_TESTS=asan, the target `all` contains only tests with that label; no test has the label
# `none`.
set(URTRS_TESTS "all" CACHE STRING "Tests to build by default: all, none, or those of one label")

function(urtrs_as_test NAME)
  target_link_libraries(${NAME} PRIVATE urtrs_warnings GTest::gtest rapidcheck)
  # Templates in tests dominate the time of a full build. Therefore tests are not optimised, and in sanitizer builds
  # they do not have the checks that are slowest to compile. The tested code has both.
  # A test that needs optimisation sets target_compile_options(NAME PRIVATE -O2).
  target_compile_options(${NAME} PRIVATE -g1 -O0)
  if(URTRS_SANITIZE MATCHES "undefined")
    target_compile_options(${NAME} PRIVATE -fno-sanitize=null,alignment,vptr,object-size)
  endif()
endfunction()

function(urtrs_test_objects NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${NAME} OBJECT EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${NAME} PUBLIC ${ARG_DEPS})
  urtrs_as_test(${NAME})
endfunction()

# Tests of a folder are compiled together to read their headers once; parsing headers took half of a full build. A build
# for one label builds each program that contains a test with that label.
function(urtrs_test NAME)
  cmake_parse_arguments(ARG "ALONE" "" "SOURCES;DEPS;LABELS;SHARED;DEFINES;RUNS" ${ARGN})
  # These tests need no network, no other program and no special host.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/(core|sim)(/|$)")
    list(APPEND ARG_LABELS pure asan)
  endif()
  set(program ${NAME})
  set(files)
  if(NOT ARG_ALONE)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    string(REGEX REPLACE "[^a-z0-9]+" "_" program "${folder}_tests")
    list(TRANSFORM ARG_SOURCES REPLACE "^.*/" "" OUTPUT_VARIABLE names)
    list(JOIN names "," names)
    set(files --files=${names})
  endif()
  set_property(GLOBAL PROPERTY URTRS_PROGRAM_OF_${NAME} ${program})
  set_property(GLOBAL PROPERTY URTRS_ARGUMENTS_OF_${NAME} ${files})
  get_property(known DIRECTORY PROPERTY URTRS_TEST_PROGRAMS)
  if(NOT program IN_LIST known)
    set_property(DIRECTORY APPEND PROPERTY URTRS_TEST_PROGRAMS ${program})
  endif()
  if(ARG_ALONE)
    list(APPEND ARG_SHARED GTest::gtest_main)
  else()
    list(APPEND ARG_SHARED test_main)
  endif()
  foreach(kind SOURCES DEPS SHARED DEFINES RUNS LABELS)
    set_property(DIRECTORY APPEND PROPERTY URTRS_${kind}_OF_${program} ${ARG_${kind}})
  endforeach()
  if(NOT known)
    cmake_language(DEFER CALL urtrs_test_programs)
  endif()

  add_test(NAME ${NAME} COMMAND $<TARGET_FILE:${program}> ${files})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 300 LABELS "${ARG_LABELS}"
    ENVIRONMENT "RC_PARAMS=seed=20261121;HFI_NO_BACKTRACE=1;IPATH_NO_BACKTRACE=1;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()

# Runs at the end of each folder with tests: defines the test programs.
function(urtrs_test_programs)
  get_property(programs DIRECTORY PROPERTY URTRS_TEST_PROGRAMS)
  foreach(program IN LISTS programs)
    foreach(kind SOURCES DEPS SHARED DEFINES RUNS LABELS)
      get_property(${kind} DIRECTORY PROPERTY URTRS_${kind}_OF_${program})
      list(REMOVE_DUPLICATES ${kind})
    endforeach()
    add_executable(${program} ${SOURCES})
    target_compile_definitions(${program} PRIVATE ${DEFINES})
    target_link_libraries(${program} PRIVATE ${SHARED} ${DEPS})
    urtrs_as_test(${program})
    if(RUNS)
      add_dependencies(${program} ${RUNS})
    endif()
    if(NOT URTRS_TESTS STREQUAL "all" AND NOT URTRS_TESTS IN_LIST LABELS)
      set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    endif()
    foreach(label tsan pure asan)
      if(label IN_LIST LABELS)
        add_dependencies(${label}_tests ${program})
      endif()
    endforeach()
  endforeach()
endfunction()

# Prefer Debian's Python: another Python in PATH may lack the required packages.
find_program(URTRS_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(URTRS_PYTHON python3 REQUIRED)

function(urtrs_python_test NAME FILE)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT" "LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${NAME} COMMAND ${URTRS_PYTHON} -B -m pytest --verbose ${CMAKE_CURRENT_SOURCE_DIR}/${FILE})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" RUN_SERIAL "${ARG_SERIAL}"
    SKIP_RETURN_CODE 77
    ENVIRONMENT "URTRS_BUILD_DIR=${PROJECT_BINARY_DIR};TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp")
endfunction()

function(urtrs_program NAME)
  cmake_parse_arguments(ARG "" "COMPONENT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_COMPONENT)
    set(ARG_COMPONENT tools)
  endif()
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} urtrs_warnings)
  install(TARGETS ${NAME} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${ARG_COMPONENT})
  set_property(GLOBAL APPEND PROPERTY URTRS_PROGRAMS ${NAME})
endfunction()

macro(urtrs_runs_seldom)
  add_compile_options($<$<CONFIG:RelWithDebInfo,Release>:-O1>)
endmacro()

function(urtrs_bench NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} urtrs_warnings benchmark::benchmark benchmark::benchmark_main)
endfunction()

function(urtrs_fuzz_target NAME)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  if(URTRS_FUZZ)
    add_executable(${NAME}_fuzz ${NAME}_fuzz.cpp)
    target_link_libraries(${NAME}_fuzz PRIVATE ${ARG_DEPS} urtrs_warnings)
    target_link_options(${NAME}_fuzz PRIVATE -fsanitize=fuzzer)
    return()
  endif()
  urtrs_test(${NAME}_corpus_test SOURCES ${NAME}_fuzz.cpp ${PROJECT_SOURCE_DIR}/conformance/fuzz/corpus_test.cpp
    DEPS ${ARG_DEPS} LABELS asan DEFINES URTRS_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/${NAME}" ALONE)
endfunction()

# git_describe.cmake: writes what `git describe` says of SOURCE into OUTPUT, where it is something else than before.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --tags OUTPUT_VARIABLE commit RESULT_VARIABLE result
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
# A checkout around an unpacked archive is not ours.
if(NOT result EQUAL 0 OR NOT EXISTS ${SOURCE}/.git)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define URTRS_GIT_DESCRIBE \"@commit@\"\n" @ONLY)

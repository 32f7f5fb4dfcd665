# git_describe.cmake: writes the output of `git describe` in SOURCE to OUTPUT if it has changed.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --tags OUTPUT_VARIABLE commit RESULT_VARIABLE result
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
# If SOURCE has no .git, git has found the repository of a parent folder, which is not the repository of this
# project.
if(NOT result EQUAL 0 OR NOT EXISTS ${SOURCE}/.git)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define URTRS_GIT_DESCRIBE \"@commit@\"\n" @ONLY)

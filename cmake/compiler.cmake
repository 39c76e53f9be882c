# SPDX-License-Identifier: MIT
#
# Warnings and sanitizers as one interface target, ccl_flags: the library, the tests and the bench link it, installed targets do not
# carry it.
#   CCL_NO_UNDEFINED    linker option that refuses undefined symbols in a shared library
#   CCL_TIMEOUT_FACTOR  how much longer a test may take in this build
#   CCL_TEST_LAUNCHER   command in front of every test program

add_library(ccl_flags INTERFACE)
target_compile_options(ccl_flags INTERFACE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla)
if(CCL_WERROR)
  target_compile_options(ccl_flags INTERFACE -Werror)
endif()

set(CCL_NO_UNDEFINED -Wl,-z,defs)
set(CCL_TIMEOUT_FACTOR 1)
set(CCL_TEST_LAUNCHER)

if(CCL_SANITIZE)
  target_compile_options(ccl_flags INTERFACE -fsanitize=${CCL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ccl_flags INTERFACE -fsanitize=${CCL_SANITIZE})
  set(CCL_TIMEOUT_FACTOR 3)
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    set(CCL_NO_UNDEFINED) # clang links the sanitizer's runtime into programs only
  endif()
endif()

if(CCL_SANITIZE MATCHES "thread")
  set(CCL_TIMEOUT_FACTOR 5)
  # Older runtimes of the thread sanitizer do not start where the kernel randomises more address bits than they know.
  include(CheckCSourceRuns)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=thread)
  check_c_source_runs("int main(void) { return 0; }" CCL_TSAN_STARTS)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT CCL_TSAN_STARTS)
    find_program(CCL_SETARCH setarch)
    if(CCL_SETARCH)
      set(CCL_TEST_LAUNCHER ${CCL_SETARCH} -R)
    endif()
    message(STATUS "thread sanitizer: programs do not start with address randomisation, launcher: ${CCL_TEST_LAUNCHER}")
  endif()
endif()

# SPDX-License-Identifier: MIT
#
# Functions that turn a test source into a program and CTest entries. What a test wants stands in its source, in lines like
#
#   /* CTEST: ranks 1 2 3 4 5 7 8; labels quick; timeout 60; args --bytes 8; env CCL_VARIANT=ll; name ll */
#
# All fields are optional; several lines make several entries of the same program, told apart by name (default: the args).
#   ranks    MPI tests and examples only: one entry per number. Default 1 2 3 4 5 7 8.
#   gpu      the numbers with CCL_TEST_BACKEND=gpu instead. Default 2 4 8, and 1 where ranks is 1 (such a test makes its ranks itself);
#            0: not on that backend.
#   labels   added to those of the kind: unit | mpi host | fuzz. Known: quick, long, model, tsan (also run by tests/run.sh under tsan), gpu (needs
#            what only that backend has; skipped with 77 on the others, tests/gpu.sh runs it there).
#            A test with the label long has no quick entries and runs with tests/run.sh --long only.
#   timeout  seconds in an unsanitized build. Default 60.
# Entries are named unit.NAME[.ENTRY], fuzz.NAME[.ENTRY], mpi.NAME[.ENTRY].nRANKS, where NAME is the file's without test_ or fuzz_.

set(CCL_DEFAULT_RANKS 1 2 3 4 5 7 8)
set(CCL_TEST_BACKEND host CACHE STRING "Backend the tests under mpirun run on: host or gpu (tests/gpu.sh)")

# Open MPI: allow root and more ranks than cores, use nothing but shared memory and the loopback device, keep quiet about both.
set(CCL_TEST_ENVIRONMENT
    CCL_BACKEND=${CCL_TEST_BACKEND}
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
    OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_pml=ob1
    OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_plm_rsh_agent=
    ASAN_OPTIONS=detect_stack_use_after_return=1:fast_unwind_on_malloc=0
    LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/../tests/lsan.supp:print_suppressions=0
    TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/../tests/tsan.supp:halt_on_error=1
    UBSAN_OPTIONS=print_stacktrace=1)

# The CTEST lines of a source as a list of entries, fields of an entry separated by |. One empty entry when there are none.
function(ccl_read_test_lines source out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  string(REPLACE ";" "|" text "${text}")
  string(REGEX MATCHALL "/\\* CTEST:[^\n]*" lines "${text}")
  set(entries)
  foreach(line ${lines})
    if(NOT line MATCHES "^/\\* CTEST:(.*)\\*/")
      message(FATAL_ERROR "${source}: a CTEST comment must end on its line: ${line}")
    endif()
    list(APPEND entries " ${CMAKE_MATCH_1}")
  endforeach()
  if(NOT entries)
    set(entries " ")
  endif()
  set(${out} "${entries}" PARENT_SCOPE)
endfunction()

# Split one entry into ENTRY_<FIELD> lists of the caller.
macro(ccl_parse_test_entry source entry)
  foreach(field RANKS GPU LABELS TIMEOUT ARGS ENV NAME)
    set(ENTRY_${field})
  endforeach()
  string(REPLACE "|" ";" fields "${entry}")
  foreach(text ${fields})
    separate_arguments(words UNIX_COMMAND "${text}")
    if(words)
      list(POP_FRONT words field)
      string(TOUPPER ${field} field)
      if(NOT field MATCHES "^(RANKS|GPU|LABELS|TIMEOUT|ARGS|ENV|NAME)$")
        message(FATAL_ERROR "${source}: CTEST line has no field ${field}")
      endif()
      set(ENTRY_${field} ${words})
    endif()
  endforeach()
  if(NOT ENTRY_NAME AND ENTRY_ARGS)
    string(REGEX REPLACE "[^A-Za-z0-9]+" "_" ENTRY_NAME "${ENTRY_ARGS}")
  endif()
endmacro()

# Properties every entry has. LABELS, TIMEOUT and ENV as in a CTEST line, PROCESSORS cores it keeps busy.
function(ccl_set_test_properties test)
  cmake_parse_arguments(P "" "TIMEOUT;PROCESSORS" "LABELS;ENV" ${ARGN})
  if(NOT P_TIMEOUT)
    set(P_TIMEOUT 60)
  endif()
  if(NOT P_PROCESSORS)
    set(P_PROCESSORS 1)
  endif()
  math(EXPR timeout "${P_TIMEOUT} * ${CCL_TIMEOUT_FACTOR}")
  if("long" IN_LIST P_LABELS)
    list(REMOVE_ITEM P_LABELS quick)
  endif()
  list(REMOVE_DUPLICATES P_LABELS)
  set_tests_properties(${test} PROPERTIES LABELS "${P_LABELS}" TIMEOUT ${timeout} PROCESSORS ${P_PROCESSORS} SKIP_RETURN_CODE 77
                       ENVIRONMENT "${CCL_TEST_ENVIRONMENT};${P_ENV}")
endfunction()

# CTest entries of a built program that runs as one process.
function(ccl_add_unit_test prefix target)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "LABELS;ARGS;ENV" ${ARGN})
  string(REGEX REPLACE "\\.$" "" test "${prefix}.${T_NAME}")
  add_test(NAME ${test} COMMAND ${CCL_TEST_LAUNCHER} $<TARGET_FILE:${target}> ${T_ARGS})
  ccl_set_test_properties(${test} TIMEOUT ${T_TIMEOUT} LABELS ${T_LABELS} ENV ${T_ENV})
endfunction()

# CTest entries of a built program that runs under mpirun, one per number of RANKS. mpirun is stopped a little before CTest would kill
# it, because only a mpirun that ends by itself takes its ranks along.
function(ccl_add_mpi_test prefix target)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "RANKS;LABELS;ARGS;ENV" ${ARGN})
  if(NOT T_RANKS)
    set(T_RANKS ${CCL_DEFAULT_RANKS})
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  set(program $<TARGET_FILE:${target}>)
  if(CCL_TEST_BACKEND STREQUAL "gpu" AND TARGET program_${target}_gpu)
    set(program $<TARGET_FILE:${target}>_gpu) # its form for the GPU, made beside it
  endif()
  set(limit)
  if(CCL_TIMEOUT_PROGRAM)
    math(EXPR seconds "${T_TIMEOUT} * ${CCL_TIMEOUT_FACTOR}")
    set(limit ${CCL_TIMEOUT_PROGRAM} --kill-after=5 ${seconds})
    math(EXPR T_TIMEOUT "${T_TIMEOUT} + 10")
  endif()
  foreach(ranks ${T_RANKS})
    string(REGEX REPLACE "\\.$" "" test "${prefix}.${T_NAME}")
    set(test ${test}.n${ranks})
    add_test(NAME ${test} COMMAND ${limit} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
             ${CCL_TEST_LAUNCHER} ${program} ${MPIEXEC_POSTFLAGS} ${T_ARGS})
    set(processors 2)
    if(ranks EQUAL 1)
      set(processors 1)
    endif()
    ccl_set_test_properties(${test} TIMEOUT ${T_TIMEOUT} PROCESSORS ${processors} LABELS ${T_LABELS} ENV ${T_ENV})
  endforeach()
endfunction()

# Every entry of a source: kind is unit, fuzz or mpi, target the program built from it.
function(ccl_add_tests_of_source kind name target source)
  set(labels ${kind})
  if(kind STREQUAL "mpi")
    set(labels mpi ${CCL_TEST_BACKEND})
  endif()
  ccl_read_test_lines(${source} entries)
  foreach(entry ${entries})
    ccl_parse_test_entry(${source} "${entry}")
    if(CCL_TEST_BACKEND STREQUAL "gpu" AND kind STREQUAL "mpi")
      if("${ENTRY_GPU}" STREQUAL "0")
        continue()
      elseif(ENTRY_GPU)
        set(ENTRY_RANKS ${ENTRY_GPU})
      elseif(NOT "${ENTRY_RANKS}" STREQUAL "1")
        set(ENTRY_RANKS 2 4 8)
      endif()
    endif()
    set(common NAME "${ENTRY_NAME}" TIMEOUT "${ENTRY_TIMEOUT}" LABELS ${labels} ${ENTRY_LABELS} ARGS ${ENTRY_ARGS} ENV ${ENTRY_ENV})
    if(kind STREQUAL "mpi")
      ccl_add_mpi_test(mpi.${name} ${target} RANKS ${ENTRY_RANKS} ${common})
    else()
      ccl_add_unit_test(${kind}.${name} ${target} ${common})
    endif()
  endforeach()
endfunction()

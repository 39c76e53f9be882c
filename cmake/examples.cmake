# SPDX-License-Identifier: MIT
#
# docs/examples/*.hip: kernels of a user's own. Each is compiled as C for the host backend (example_NAME, run by CTest) and, where nvcc was
# found, for NVIDIA GPUs (example_NAME_gpu, to be run where there is one: CCL_BACKEND=gpu mpirun -n 4 tests/example_NAME_gpu).
# check.header compiles the device half for AMD.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/examples/*.hip)
set_source_files_properties(${sources} PROPERTIES LANGUAGE C COMPILE_OPTIONS "-x;c")
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE ccl MPI::MPI_C ccl_flags)
  if(nvcc AND NOT CCL_SANITIZE)
    set(program ${CMAKE_CURRENT_BINARY_DIR}/example_${name}_gpu)
    set(flags -x cu -O2 -std=c++17 -Werror all-warnings -cudart static -gencode arch=compute_90,code=sm_90
        -gencode arch=compute_80,code=compute_80 -I${PROJECT_SOURCE_DIR}/include)
    foreach(dir ${MPI_C_INCLUDE_DIRS})
      list(APPEND flags -isystem ${dir})
    endforeach()
    set(libraries)
    foreach(library ${MPI_C_LIBRARIES} $<TARGET_FILE:ccl>)
      list(APPEND libraries -Xlinker ${library})
    endforeach()
    add_custom_command(OUTPUT ${program} COMMAND ${nvcc} ${flags} -MD -MF ${program}.d -MT ${program} -o ${program} ${source} ${libraries}
                       -Xlinker -rpath,$<TARGET_FILE_DIR:ccl> DEPENDS ${source} ccl DEPFILE ${program}.d
                       COMMENT "Building example_${name}_gpu" VERBATIM)
    add_custom_target(program_example_${name}_gpu ALL DEPENDS ${program})
  endif()
  ccl_add_tests_of_source(mpi example_${name} example_${name} ${source})
endforeach()

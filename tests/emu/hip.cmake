# SPDX-License-Identifier: MIT
#
# libccl_emu.so, what CCL_BACKEND=emu:ARCH loads: the fake HIP runtime of tests/fake_gpu with its HSA calls, kernels interpreted. It lies beside libccl.so, which
# looks for it there, so programs need no library path.
set(fake_gpu ${PROJECT_SOURCE_DIR}/tests/fake_gpu)
file(GLOB hip_runtime_sources CONFIGURE_DEPENDS hip_*.c)
add_library(ccl_emu SHARED ${hip_runtime_sources} ${fake_gpu}/fake_capture.c ${fake_gpu}/fake_control.c ${fake_gpu}/fake_copy.c ${fake_gpu}/fake_device.c
            ${fake_gpu}/fake_event.c ${fake_gpu}/fake_graph.c ${fake_gpu}/fake_hsa.c ${fake_gpu}/fake_memory.c ${fake_gpu}/fake_stream.c
            ${fake_gpu}/fake_vmm.c)
target_compile_definitions(ccl_emu PRIVATE _GNU_SOURCE FAKE_EMU)
target_compile_options(ccl_emu PRIVATE -fno-strict-aliasing)
target_include_directories(ccl_emu PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/kernels ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(ccl_emu PRIVATE emu_core ccl_flags Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(ccl_emu PRIVATE ${CCL_NO_UNDEFINED})
set_target_properties(ccl_emu PROPERTIES C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

# Random schedules of every kernel, all ranks in one process.
file(GLOB schedule_sources CONFIGURE_DEPENDS schedule*.c)
add_executable(emu_schedules ${schedule_sources})
target_compile_definitions(emu_schedules PRIVATE _GNU_SOURCE)
target_link_libraries(emu_schedules PRIVATE ccl ccl_flags ${CMAKE_DL_LIBS})
add_dependencies(emu_schedules ccl_emu)

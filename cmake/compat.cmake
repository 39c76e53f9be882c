# SPDX-License-Identifier: MIT
#
# The drop-in libraries libnccl.so.2 and librccl.so.1: src/compat over the objects of libccl, each a file that needs nothing beside it. Made
# in a folder of their own, build and installation alike, so that a real NCCL or RCCL is shadowed only where somebody asks for it.
set(CCL_COMPAT_DIR ${PROJECT_BINARY_DIR}/ccl-compat)

file(GLOB compat_sources CONFIGURE_DEPENDS src/compat/compat_*.c)
add_library(ccl_compat_objects OBJECT ${compat_sources})
target_include_directories(ccl_compat_objects PUBLIC ${PROJECT_SOURCE_DIR}/include/compat)
target_link_libraries(ccl_compat_objects PUBLIC ccl_objects)
# Visible: src/compat/compat.map says what is exported.
set_target_properties(ccl_compat_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

function(add_compat_library name version)
  add_library(${name} SHARED src/compat/only_${name}.c $<TARGET_OBJECTS:ccl_compat_objects> $<TARGET_OBJECTS:ccl_objects>)
  target_include_directories(${name} PRIVATE include include/compat src kernels)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:ccl_flags> Threads::Threads ${CMAKE_DL_LIBS})
  # Bsymbolic: beside libccl.so in one process each library calls its own functions. nodelete: as libccl.
  target_link_options(${name} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/compat/compat.map -Wl,-z,nodelete -Wl,-Bsymbolic-functions
                      ${CCL_NO_UNDEFINED})
  set_target_properties(${name} PROPERTIES SOVERSION ${version} LIBRARY_OUTPUT_DIRECTORY ${CCL_COMPAT_DIR}
                        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/compat/compat.map)
endfunction()

add_compat_library(nccl 2)
add_compat_library(rccl 1)

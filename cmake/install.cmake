# SPDX-License-Identifier: MIT
#
# What `cmake --install` writes: the library, the public headers, libccl.pc, and a package for find_package(ccl) -> ccl::ccl.
include(CMakePackageConfigHelpers)

install(TARGETS ccl EXPORT ccl-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ccl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

install(TARGETS nccl rccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ccl-compat)
install(DIRECTORY include/compat/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ccl-compat FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ccl)
install(EXPORT ccl-targets NAMESPACE ccl:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ccl-config.cmake.in ${PROJECT_BINARY_DIR}/ccl-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ccl-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ccl-config.cmake ${PROJECT_BINARY_DIR}/ccl-config-version.cmake DESTINATION ${package_dir})

# Paths in libccl.pc follow the file, so a moved or --prefix'ed installation works; absolute install folders stay absolute.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(CCL_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /prefix/${pkgconfig_dir} /prefix)
  set(CCL_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(dir LIBDIR INCLUDEDIR)
  set(CCL_PC_${dir} ${CMAKE_INSTALL_${dir}})
  if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${dir}})
    set(CCL_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
configure_file(cmake/libccl.pc.in ${PROJECT_BINARY_DIR}/libccl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libccl.pc DESTINATION ${pkgconfig_dir})

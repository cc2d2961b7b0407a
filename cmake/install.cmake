# The installed tree: headers, libtenon, TenonConfig.cmake for find_package(Tenon), tenon.pc for pkg-config, the command-line
# tool with its manual page, EP plugins in <libdir>/tenon, the drop-in library in <libdir>/tenon/onnxruntime, examples, licences.
include(CMakePackageConfigHelpers)

set(TENON_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Tenon)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT tenon
        FILES_MATCHING PATTERN "*.h")
install(TARGETS tenon EXPORT TenonTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tenon
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tenon)
if(TARGET tenon_onnxruntime)
  # In a folder of its own: no program finds it there by accident, and LD_LIBRARY_PATH may name it.
  install(TARGETS tenon_onnxruntime LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/onnxruntime COMPONENT drop_in)
endif()
install(EXPORT TenonTargets NAMESPACE Tenon:: DESTINATION ${TENON_CMAKE_DIR} COMPONENT tenon)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TenonConfig.cmake.in ${PROJECT_BINARY_DIR}/TenonConfig.cmake
                              INSTALL_DESTINATION ${TENON_CMAKE_DIR})
# Before 1.0 the ABI may change with the minor version.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TenonConfig.cmake ${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake
        DESTINATION ${TENON_CMAKE_DIR} COMPONENT tenon)

# Found relative to itself, so that the installed tree may be moved.
file(RELATIVE_PATH TENON_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tenon.pc.in ${PROJECT_BINARY_DIR}/tenon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT tenon)

foreach(plugin tenon_plugin_sim tenon_plugin_cuda)
  if(TARGET ${plugin})
    # A plugin is loaded by name; nothing links it.
    install(TARGETS ${plugin} LIBRARY DESTINATION ${TENON_PLUGIN_DIR} COMPONENT plugins)
  endif()
endforeach()

set(TENON_DOC_DIR ${CMAKE_INSTALL_DATAROOTDIR}/doc/tenon)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${TENON_DOC_DIR} COMPONENT tenon)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${TENON_DOC_DIR} COMPONENT tenon)

install(TARGETS tenon-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cli)
if(NOT TENON_SANITIZE)
  # From the program's own help, so it cannot fall behind; a build under a sanitizer installs none.
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  set(man_page ${PROJECT_BINARY_DIR}/tenon.1)
  add_custom_command(OUTPUT ${man_page}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/make_man_page.py $<TARGET_FILE:tenon-cli> ${man_page}
    DEPENDS tenon-cli ${PROJECT_SOURCE_DIR}/tools/make_man_page.py
    COMMENT "Writing tenon.1"
    VERBATIM)
  add_custom_target(tenon_man_page ALL DEPENDS ${man_page})
  install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT cli)
endif()

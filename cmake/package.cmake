# ./dev package: a Debian package of the whole installed tree, build/<preset>/package/tenon_VERSION_ARCH.deb. Needs dpkg-dev and
# file, from which CPack computes the dependencies.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tenon)
set(CPACK_PACKAGE_VENDOR "The Tenon authors")
set(CPACK_PACKAGE_CONTACT "The Tenon authors")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Opened at run time, by `tenon demo` alone.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libvulkan1, mesa-vulkan-drivers")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "runtime for ONNX models on memory that is already there")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Tenon imports memory of other programs and APIs, waits for their fences, runs a
model in place, signals back and reports each byte that it copied. The package
holds libtenon with its headers, the tenon command, EP plugins, and a library
with the ABI of libonnxruntime in /usr/lib/tenon/onnxruntime.")
# From it the packages of programs that link libtenon get their dependency.
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs
     "libtenon ${PROJECT_VERSION_MAJOR} tenon (>= ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})\n")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_tree.cmake)
include(CPack)

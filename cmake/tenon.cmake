# Helpers: one static library for each folder of src/, its *_test.cc beside the sources, SIMD files once for each instruction set.
option(TENON_PCH "Precompile the standard library's and GoogleTest's headers: for builds from nothing" OFF)
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  if(TENON_PCH)
    # Without these two ccache keeps nothing that uses a precompiled header.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endif()
endif()
find_package(Threads REQUIRED)
if(TENON_BUILD_TESTS)
  if(CMAKE_CROSSCOMPILING)
    # Debian's googletest package ships the source.
    add_subdirectory(/usr/src/googletest googletest EXCLUDE_FROM_ALL)
  else()
    find_package(GTest REQUIRED)
  endif()
endif()

add_library(tenon_flags INTERFACE)
target_compile_features(tenon_flags INTERFACE cxx_std_20)
target_include_directories(tenon_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
# Warnings are errors for the compilers that ./dev installs: others find others, which must not stop a user's build.
set(pinned_gnu $<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>)
target_compile_options(tenon_flags INTERFACE -Wall -Wextra $<$<OR:${pinned_gnu},$<CXX_COMPILER_ID:Clang>>:-Werror> -ffunction-sections -fdata-sections -Wno-missing-field-initializers)
target_link_libraries(tenon_flags INTERFACE Threads::Threads)
if(WIN32)
  # Debian's header-only libraries, each by a link: the rest of /usr/include is another system's.
  set(headers ${CMAKE_BINARY_DIR}/headers)
  file(MAKE_DIRECTORY ${headers})
  foreach(library protozero fmt nlohmann dlpack)
    file(CREATE_LINK /usr/include/${library} ${headers}/${library} SYMBOLIC)
  endforeach()
  target_include_directories(tenon_flags SYSTEM INTERFACE ${headers})
  target_compile_definitions(tenon_flags INTERFACE WIN32_LEAN_AND_MEAN NOMINMAX UNICODE _UNICODE)
elseif(CMAKE_CROSSCOMPILING)
  target_compile_options(tenon_flags INTERFACE -idirafter /usr/include)
endif()
# g++ 12 warns of an overlap in `"x" + string` that is not there (its bug 105651), and with a
# precompiled header of overflows, too; the release preset compiles without and keeps those warnings.
target_compile_options(tenon_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# g++ 13 takes a reference to an argument of format() for one to a temporary, where the argument's type is a class.
target_compile_options(tenon_flags INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>)
if(TENON_PCH)
  target_compile_options(tenon_flags INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-array-bounds;-Wno-stringop-overread>")
endif()
# libstdc++ 12's std::stable_sort uses what it deprecates itself.
target_compile_options(tenon_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(TENON_BUILD_FUZZERS)
  target_compile_options(tenon_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
# A test's own source links GoogleTest; the code under test is in the libraries. Optimising a test takes as long as all
# the rest of its compilation.
set(is_test $<IN_LIST:GTest::gtest,$<TARGET_PROPERTY:LINK_LIBRARIES>>)
target_compile_options(tenon_flags INTERFACE $<$<AND:$<CONFIG:Release>,${is_test}>:-O0>)
if(TENON_SANITIZE)
  # Warnings are errors in the build that ships; clang has others.
  target_compile_options(tenon_flags INTERFACE -Wno-error)
  # Not optimised (the presets), except the SIMD files: the optimiser takes two to three times as long over instrumented
  # code. A test's templates take a third longer to compile under the undefined-behaviour sanitizer.
  string(REPLACE "," "$<COMMA>" all "${TENON_SANITIZE}")
  string(REPLACE ",undefined" "" fewer "${TENON_SANITIZE}")
  target_compile_options(tenon_flags INTERFACE
    -fsanitize=$<IF:${is_test},${fewer},${all}> -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(TENON_SANITIZE MATCHES undefined)
    # In a SIMD file each of these checks stands at every load: together more than a minute of compiling against 15 s.
    # A wrong address is still the address sanitizer's to find.
    target_compile_options(tenon_flags INTERFACE
      $<$<BOOL:$<TARGET_PROPERTY:TENON_SIMD>>:-fno-sanitize=alignment$<COMMA>null$<COMMA>pointer-overflow>)
  endif()
  target_link_options(tenon_flags INTERFACE -fsanitize=${TENON_SANITIZE})
  # Archives that name their objects: with copies the build takes a quarter more of the disk.
  set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcT <TARGET> <LINK_FLAGS> <OBJECTS>")
endif()

# tenon_sanitized(TEST TARGET): a test that ./dev test runs again under the sanitizers; there only the targets of such
# tests are built.
add_custom_target(tenon_sanitized_tests)
function(tenon_sanitized test target)
  set_property(TEST ${test} APPEND PROPERTY LABELS sanitized)
  add_dependencies(tenon_sanitized_tests ${target})
endfunction()

# The headers that most sources include, parsed once: for libraries, and with GoogleTest's for tests. A source includes what
# it uses all the same, because other presets compile without. Named as <x>, the list holds no path of this machine, and
# ccache finds its results from another folder.
set(TENON_PCH_HEADERS <fmt/core.h> <algorithm> <array> <atomic> <chrono> <cmath> <cstddef> <cstdint> <cstdio> <cstdlib>
    <cstring> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <span> <string> <string_view> <thread>
    <unordered_map> <utility> <variant> <vector>)
if(TENON_PCH)
  add_library(tenon_pch STATIC ${PROJECT_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(tenon_pch PRIVATE tenon_flags)
  target_precompile_headers(tenon_pch PRIVATE ${TENON_PCH_HEADERS})
  if(TENON_BUILD_TESTS)
    # An executable, because tests are compiled as parts of one (-fPIE); nobody links it.
    add_executable(tenon_test_pch EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/empty.cc)
    target_link_libraries(tenon_test_pch PRIVATE tenon_flags GTest::gtest GTest::gmock GTest::gtest_main)
    target_precompile_headers(tenon_test_pch PRIVATE ${TENON_PCH_HEADERS} <filesystem> <fstream> <random> <gmock/gmock.h>
                              <gtest/gtest.h>)
  endif()
endif()

# tenon_gtest(TARGET library...): an executable of GoogleTest's tests.
function(tenon_gtest target)
  target_link_libraries(${target} PRIVATE ${ARGN} tenon_flags GTest::gtest GTest::gmock GTest::gtest_main)
  if(TENON_PCH)
    target_precompile_headers(${target} REUSE_FROM tenon_test_pch)
  endif()
endfunction()

# x_posix.cc, x_linux.cc and x_win32.cc, and their tests, are for one kind of system.
set(TENON_OTHER_SYSTEMS "_win32(_test)?\\.cc$")
if(WIN32)
  set(TENON_OTHER_SYSTEMS "_(posix|linux)(_test)?\\.cc$")
endif()

# tenon_library(NAME base OPTIMIZE -Os DEPENDS other... FOLDERS folder... EXCLUDE x.cc...): libtenon_<name>.a from *.cc of this
# folder and of FOLDERS with their subfolders, tests from *_test.cc. OPTIMIZE: the level in Release, if another than -O3.
function(tenon_library name)
  cmake_parse_arguments(ARG "" "OPTIMIZE" "DEPENDS;FOLDERS;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/simd/*_select.cc
       ${CMAKE_CURRENT_SOURCE_DIR}/simd/isa.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc ${CMAKE_CURRENT_SOURCE_DIR}/simd/*_test.cc)
  foreach(folder ${ARG_FOLDERS})
    get_filename_component(folder ${folder} ABSOLUTE)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/*.cc)
    list(APPEND sources ${found})
    list(FILTER found INCLUDE REGEX "_test\\.cc$")
    list(APPEND tests ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark|simd)\\.cc$")
  list(FILTER sources EXCLUDE REGEX ${TENON_OTHER_SYSTEMS})
  list(FILTER tests EXCLUDE REGEX ${TENON_OTHER_SYSTEMS})
  foreach(exclude ${ARG_EXCLUDE})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${exclude})
  endforeach()
  if(NOT sources)
    set(sources ${PROJECT_SOURCE_DIR}/cmake/empty.cc)
  endif()
  add_library(tenon_${name} STATIC ${sources})
  target_link_libraries(tenon_${name} PUBLIC tenon_flags)
  foreach(dep ${ARG_DEPENDS})
    target_link_libraries(tenon_${name} PUBLIC tenon_${dep})
  endforeach()
  target_compile_options(tenon_${name} PRIVATE $<$<CONFIG:Release>:${ARG_OPTIMIZE}>)
  if(TENON_PCH AND ARG_OPTIMIZE AND CMAKE_BUILD_TYPE STREQUAL Release)
    # g++ refuses a header of another level, or optimises as that header says.
    target_precompile_headers(tenon_${name} PRIVATE ${TENON_PCH_HEADERS})
  elseif(TENON_PCH)
    target_precompile_headers(tenon_${name} REUSE_FROM tenon_pch)
  endif()
  if(TENON_BUILD_TESTS AND tests)
    add_executable(tenon_${name}_test ${tests})
    tenon_gtest(tenon_${name}_test tenon_${name})
    add_test(NAME unit.${name} COMMAND tenon_${name}_test)
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 600)
    tenon_sanitized(unit.${name} tenon_${name}_test)
  endif()
endfunction()

# tenon_exports(TARGET exports): a module that shows nothing but what exports.map, or on Windows exports.def, names.
function(tenon_exports target exports)
  get_filename_component(exports ${exports} ABSOLUTE)
  if(WIN32)
    target_sources(${target} PRIVATE ${exports}.def)
    return()
  endif()
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports}.map -Wl,--gc-sections)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exports}.map)
  if(NOT TENON_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

# Compiles simd/*_simd.cc of this folder once for each instruction set into target, int8_simd.cc and nbits8_simd.cc also
# for those with VNNI.
function(tenon_simd target)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/simd/*_simd.cc)
  if(NOT sources)
    return()
  endif()
  set(isas baseline)
  set(flags_baseline "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # A set that is left out is served by the best one before it.
    set(best baseline)
    foreach(isa avx2 avx512)
      if(isa IN_LIST TENON_CPU_ISAS)
        list(APPEND isas ${isa})
        set(best ${isa})
      else()
        target_compile_definitions(${target} PUBLIC isa_${isa}=isa_${best})
      endif()
    endforeach()
    foreach(isa avx2 avx512)
      if(isa IN_LIST isas)
        list(APPEND vnni_isas ${isa}vnni)
      else()
        target_compile_definitions(${target} PUBLIC isa_${isa}vnni=isa_${isa})
      endif()
    endforeach()
    set(flags_baseline -msse4.2 -mpclmul -maes)
    set(flags_avx2 -mavx2 -mfma -mbmi -mbmi2 -mf16c -maes -mpclmul -mtune=znver3)
    set(flags_avx512 -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx2 -mfma -mbmi -mbmi2 -mf16c -maes -mpclmul)
    set(flags_avx2vnni ${flags_avx2} -mavxvnni)
    set(flags_avx512vnni ${flags_avx512} -mavx512vnni)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    # Highway's NEON target includes AES.
    set(flags_baseline -march=armv8-a+crypto)
  endif()
  # Without optimisation no SIMD file is usable; above -O1 instrumented ones take long to compile.
  set(level -O3)
  if(TENON_SANITIZE)
    set(level -O1)
  endif()
  set(all_sources ${sources})
  foreach(isa ${isas} ${vnni_isas})
    set(sources ${all_sources})
    if(isa IN_LIST vnni_isas)
      list(FILTER sources INCLUDE REGEX "/(conv_bytes|int8|nbits8)_simd\\.cc$")
    endif()
    add_library(${target}_${isa} OBJECT ${sources})
    set_target_properties(${target}_${isa} PROPERTIES TENON_SIMD ON)
    target_link_libraries(${target}_${isa} PRIVATE tenon_flags)
    target_compile_definitions(${target}_${isa} PRIVATE TENON_ISA=${isa})
    # Highway's assertions, which sanitizers switch on, call its library; its headers are all that is used.
    if(TENON_SANITIZE)
      target_compile_definitions(${target}_${isa} PRIVATE HWY_IS_DEBUG_BUILD=0)
    endif()
    # The oldest CPUs get the smaller code.
    if(isa STREQUAL baseline AND best AND NOT best STREQUAL baseline AND level STREQUAL -O3 AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      list(APPEND flags_baseline -O2 -ftree-vectorize -fvect-cost-model=dynamic)
    else()
      list(APPEND flags_${isa} ${level})
    endif()
    # Loops that call nothing that throws: tables for unwinding them would be 1 % of the library.
    target_compile_options(${target}_${isa} PRIVATE ${flags_${isa}} -fno-math-errno -fno-trapping-math -Wno-psabi
      -fno-exceptions -fno-unwind-tables -fno-asynchronous-unwind-tables)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()

# tenon_python_test(NAME golden.models SCRIPT x_test.py LABELS golden ENVIRONMENT A=B): pytest with TENON_PYTHON when
# ctest runs, else with the developer's venv (.venv), else with python3; its JUnit file goes to TENON_RESULTS for the closing
# count.
function(tenon_python_test)
  cmake_parse_arguments(ARG "SERIAL" "NAME;SCRIPT;TIMEOUT" "LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND sh -c
    "ORT_DISABLE_TELEMETRY=1 exec \"\${TENON_PYTHON:-$(command -v '${PROJECT_SOURCE_DIR}/.venv/bin/python' || echo python3)}\" -m pytest -q -p no:cacheprovider --confcutdir=\"${PROJECT_SOURCE_DIR}/tests\" \"$1\" --junitxml=\"\${TENON_RESULTS:-${CMAKE_BINARY_DIR}}/$2.xml\""
    sh ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT} ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENVIRONMENT}")
  if(ARG_SERIAL)
    set_tests_properties(${ARG_NAME} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

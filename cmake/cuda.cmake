# The CUDA toolkit, for the CUDA plugin: an installed one, or the PyPI packages that `./dev cuda` puts into
# build/cuda-toolkit. Nothing of it is linked; the plugin needs its headers and nvcc. Sets TENON_CUDA_FOUND, TENON_NVCC
# and TENON_CUDA_INCLUDES, or says in one line what is missing.
option(TENON_CUDA "Build the CUDA plugin where a CUDA toolkit is found" ON)
set(TENON_CUDA_ARCHS "80;86;89;90;100;110;120" CACHE STRING "Compute capabilities that .cu files become machine code for, one of each major version at least; the last one's PTX serves newer devices")
set(gpu_code ON)
if(TENON_SANITIZE)
  set(gpu_code OFF)
endif()
option(TENON_GPU_CODE "Compile .cu files; without it the plugin finds no kernels, and its tests on a GPU are skipped" ${gpu_code})
# Of a sanitized test that opens a GPU: CUDA maps memory where AddressSanitizer keeps a gap, and its libraries keep memory to
# the end.
set(TENON_GPU_SANITIZER_ENVIRONMENT "ASAN_OPTIONS=protect_shadow_gap=0"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/cuda_leaks.supp,print_suppressions=0")
set(packages ${PROJECT_SOURCE_DIR}/build/cuda-toolkit)
set(roots ${CUDAToolkit_ROOT} $ENV{CUDA_HOME} ${packages}/nvidia/cu13 ${packages}/nvidia/cudnn /usr/local/cuda)

set(TENON_CUDA_FOUND FALSE)
if(TENON_CUDA AND (WIN32 OR NOT CMAKE_CROSSCOMPILING))
  find_program(TENON_NVCC nvcc HINTS ${roots} PATH_SUFFIXES bin)
  set(missing "")
  if(NOT TENON_NVCC)
    list(APPEND missing nvcc)
  endif()
  set(TENON_CUDA_INCLUDES "")
  foreach(header cuda.h cudaTypedefs.h nvrtc.h cublasLt.h cudnn.h)
    find_path(TENON_CUDA_${header} ${header} HINTS ${roots} ${packages} PATH_SUFFIXES include NO_CACHE)
    if(TENON_CUDA_${header})
      list(APPEND TENON_CUDA_INCLUDES ${TENON_CUDA_${header}})
    else()
      list(APPEND missing ${header})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES TENON_CUDA_INCLUDES)
  if(missing)
    list(JOIN missing ", " missing)
    message(STATUS "The CUDA plugin is left out: ${missing} not found (./dev cuda fetches what is missing)")
  else()
    set(TENON_CUDA_FOUND TRUE)
  endif()
endif()

# Sets `out` to the assembly that puts `data` (a directive) between the symbols `name` and `name`_end: read-only data that no
# other library sees, and back to where the compiler was.
function(tenon_embedded_data out name data)
  set(begin ".section .rodata")
  set(hidden ".hidden")
  set(end ".previous")
  if(WIN32)
    set(begin ".section .rdata,\"dr\"")
    set(hidden "#")  # nothing is exported that no .def file names
    set(end ".text")
  endif()
  set(${out} "asm(R\"(
${begin}
.balign 64
.globl ${name}
.globl ${name}_end
${hidden} ${name}
${hidden} ${name}_end
${name}:
${data}
${name}_end:
.byte 0
${end}
)\");
" PARENT_SCOPE)
endfunction()

# tenon_fatbins(TARGET kernels.cu...): compiles each file and embeds it as data. x.cu becomes the symbols
# tenon_fatbin_x and tenon_fatbin_x_end (base/embedded style: extern "C" const std::byte name[]). Without
# TENON_GPU_CODE the data is one zero byte. Files x_hopper.cu use what compute capability 9.0 alone has, and are compiled for
# that only.
function(tenon_fatbins target)
  if(NOT TENON_GPU_CODE)
    target_compile_definitions(${target} PUBLIC TENON_NO_GPU_CODE)
  endif()
  list(GET TENON_CUDA_ARCHS -1 newest)
  set(code "")
  foreach(arch ${TENON_CUDA_ARCHS})
    list(APPEND code -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  list(APPEND code -gencode arch=compute_${newest},code=compute_${newest})
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME_WE)
    get_filename_component(source ${file} ABSOLUTE)
    set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
    set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${name}_fatbin.cc)
    set(data ".incbin \"${fatbin}\"")
    set(architectures ${code})
    if(name MATCHES "_hopper$")
      set(architectures -gencode arch=compute_90a,code=sm_90a)
    endif()
    if(NOT TENON_GPU_CODE)
      set(data ".byte 0")
    else()
      set_source_files_properties(${embedded} PROPERTIES OBJECT_DEPENDS ${fatbin})
    endif()
    add_custom_command(OUTPUT ${fatbin}
      COMMAND ${TENON_NVCC} -fatbin --std=c++17 -O3 -Xfatbin -compress-all ${architectures} -I${PROJECT_SOURCE_DIR}/src
              -MD -MF ${fatbin}.d -o ${fatbin} ${source}
      DEPENDS ${source} DEPFILE ${fatbin}.d COMMENT "nvcc ${name}.cu" VERBATIM)
    tenon_embedded_data(text tenon_fatbin_${name} ${data})
    file(GENERATE OUTPUT ${embedded} CONTENT "${text}")
    target_sources(${target} PRIVATE ${embedded})
  endforeach()
endfunction()

# tenon_device_headers(TARGET FUNCTION BASE files...): embeds headers that kernels include when the plugin compiles them, and
# defines tenon::cuda::FUNCTION() (device_headers.h), which gives each one's path below BASE and its text.
function(tenon_device_headers target function base)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  set(assembly "")
  set(symbols "")
  set(rows "")
  foreach(file ${ARGN})
    file(RELATIVE_PATH name ${base} ${file})
    string(MAKE_C_IDENTIFIER "tenon_${function}_${name}" symbol)
    tenon_embedded_data(text ${symbol} ".incbin \"${file}\"")
    string(APPEND assembly "${text}")
    string(APPEND symbols "extern const char ${symbol}[];\n")
    string(APPEND rows "      {\"${name}\", ${symbol}},\n")
  endforeach()
  file(GENERATE OUTPUT ${embedded} CONTENT
"#include \"ep/cuda/compute/device_headers.h\"
${assembly}
extern \"C\" {
${symbols}}
namespace tenon::cuda {
std::span<const DeviceHeader> ${function}();
std::span<const DeviceHeader> ${function}() {
  static const DeviceHeader kHeaders[] = {
${rows}  };
  return kHeaders;
}
}  // namespace tenon::cuda
")
  set_source_files_properties(${embedded} PROPERTIES OBJECT_DEPENDS "${ARGN}")
  target_sources(${target} PRIVATE ${embedded})
endfunction()

# Third-party packages. None but ConcurrentQueue (headers only) may reach the injected libraries.
find_package(Threads REQUIRED)

function(rollcall_missing package apt)
  message(FATAL_ERROR "${package} was not found. `make build` installs it through "
    "scripts/setup.sh; by hand: apt-get install ${apt}")
endfunction()

# What is built for other machines (scripts/build_portable.sh) takes headers and archives from a
# folder of its own: beside the compiler's C library, this system's must not be seen.
set(ROLLCALL_THIRD_PARTY "" CACHE PATH
  "Folder with include/ and lib/; empty: the system's")
if(ROLLCALL_THIRD_PARTY)
  include(RollcallThirdParty)
  return()
endif()

find_package(fmt QUIET)
if(NOT fmt_FOUND)
  rollcall_missing(fmt libfmt-dev)
endif()
find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  rollcall_missing(CLI11 libcli11-dev)
endif()
find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  rollcall_missing("nlohmann JSON" nlohmann-json3-dev)
endif()
find_path(ROLLCALL_ZSTD_INCLUDE zstd.h)
find_library(ROLLCALL_ZSTD_LIBRARY zstd)
if(NOT ROLLCALL_ZSTD_INCLUDE OR NOT ROLLCALL_ZSTD_LIBRARY)
  rollcall_missing(zstd libzstd-dev)
endif()
add_library(rollcall_zstd INTERFACE)
target_include_directories(rollcall_zstd INTERFACE ${ROLLCALL_ZSTD_INCLUDE})
target_link_libraries(rollcall_zstd INTERFACE ${ROLLCALL_ZSTD_LIBRARY})

# What logs are packed with. The tools alone read logs.
function(rollcall_packing name header library apt)
  string(TOUPPER ${name} upper)
  find_path(ROLLCALL_${upper}_INCLUDE ${header})
  find_library(ROLLCALL_${upper}_LIBRARY ${library})
  if(NOT ROLLCALL_${upper}_INCLUDE OR NOT ROLLCALL_${upper}_LIBRARY)
    rollcall_missing(${name} ${apt})
  endif()
  add_library(rollcall_${name} INTERFACE)
  target_include_directories(rollcall_${name} INTERFACE ${ROLLCALL_${upper}_INCLUDE})
  target_link_libraries(rollcall_${name} INTERFACE ${ROLLCALL_${upper}_LIBRARY})
endfunction()
rollcall_packing(zlib zlib.h z zlib1g-dev)
rollcall_packing(lzma lzma.h lzma liblzma-dev)

find_path(ROLLCALL_CONCURRENTQUEUE_INCLUDE concurrentqueue.h
  PATH_SUFFIXES concurrentqueue concurrentqueue/moodycamel)
if(NOT ROLLCALL_CONCURRENTQUEUE_INCLUDE)
  rollcall_missing("moodycamel ConcurrentQueue" libconcurrentqueue-dev)
endif()

# Catch2: Debian 12 ships version 2 (one header), newer systems version 3 (a library). tests/catch.h
# hides the difference; rollcall_catch_main provides main().
find_package(Catch2 QUIET)
if(NOT Catch2_FOUND)
  rollcall_missing(Catch2 catch2)
endif()
if(Catch2_VERSION VERSION_LESS 3)
  set(ROLLCALL_CATCH_MAJOR 2)
else()
  set(ROLLCALL_CATCH_MAJOR 3)
endif()

# Optional: real headers, to hold our own declarations against. Everything builds without them.
find_path(ROLLCALL_CUDA_INCLUDE cuda.h HINTS $ENV{CUDA_HOME} /usr/local/cuda PATH_SUFFIXES include)
find_path(ROLLCALL_CUPTI_INCLUDE cupti.h HINTS $ENV{CUDA_HOME} /usr/local/cuda
  PATH_SUFFIXES include extras/CUPTI/include)
find_path(ROLLCALL_NCCL_INCLUDE nccl.h HINTS $ENV{NCCL_HOME} $ENV{CUDA_HOME} /usr/local/cuda
  PATH_SUFFIXES include)

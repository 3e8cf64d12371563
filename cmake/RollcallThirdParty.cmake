# The third-party packages out of ROLLCALL_THIRD_PARTY: headers, and archives, so that the
# programs need nothing but the C library.
add_library(rollcall_headers INTERFACE)
target_include_directories(rollcall_headers SYSTEM INTERFACE ${ROLLCALL_THIRD_PARTY}/include)
target_compile_definitions(rollcall_headers INTERFACE FMT_HEADER_ONLY=1)
foreach(package fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json)
  add_library(${package} ALIAS rollcall_headers)
endforeach()

foreach(name zstd zlib lzma)
  string(REPLACE zlib z file lib${name}.a)
  add_library(rollcall_${name} INTERFACE)
  target_link_libraries(rollcall_${name} INTERFACE rollcall_headers
    ${ROLLCALL_THIRD_PARTY}/lib/${file})
endforeach()
set(ROLLCALL_CONCURRENTQUEUE_INCLUDE ${ROLLCALL_THIRD_PARTY}/include)
set(ROLLCALL_CATCH_MAJOR 2)

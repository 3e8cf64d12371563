# Under a sanitizer, and in CI, a folder is one source. What these files include takes most of the
# time that compiling them takes, and nobody develops in such a build. No two files of a folder
# therefore define a name with the same parameters in their unnamed namespaces. (A source with
# options of its own stays apart: CMake cannot give them to a part of a source.)
option(ROLLCALL_BY_FOLDER "Compile a folder as one source" OFF)
if(ROLLCALL_SANITIZE)
  set(ROLLCALL_BY_FOLDER ON)
endif()

# There a name may hide one that it does not meet otherwise.
add_library(rollcall_by_folder_flags INTERFACE)
target_compile_options(rollcall_by_folder_flags INTERFACE -Wno-shadow)

# rollcall_compile_by_folder(TARGET): after the target has all its sources and libraries.
function(rollcall_compile_by_folder target)
  if(NOT ROLLCALL_BY_FOLDER)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cpp$")
      get_filename_component(folder "${source}" DIRECTORY)
      string(REPLACE "/" "_" group "folder_${folder}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_link_libraries(${target} PRIVATE rollcall_by_folder_flags)
endfunction()

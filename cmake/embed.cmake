# cmake -DOUTPUT=file.cc -DFILES="a.cu;b.cuh" [-DFUNCTION=name] -P embed.cmake: the files as the table behind
# kernel_sources(), or another function in its place.
if(NOT FUNCTION)
  set(FUNCTION kernel_sources)
endif()
set(text "#include \"engines/cuda/compiler/kernel_sources.h\"\n\nnamespace convoy::cuda {\n\nstd::span<const KernelSource> ${FUNCTION}();\n\nnamespace {\n\nconstexpr KernelSource kSources[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "    {\"${name}\", R\"kernel(${content})kernel\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const KernelSource> ${FUNCTION}() { return kSources; }\n\n}  // namespace convoy::cuda\n")
file(WRITE ${OUTPUT} "${text}")

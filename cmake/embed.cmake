# cmake -DOUTPUT=file.cc -DFILES="a.cu;b.cuh" -P embed.cmake: the files as the table behind kernel_sources().
set(text "#include \"engines/cuda/compiler/kernel_sources.h\"\n\nnamespace convoy::cuda {\nnamespace {\n\nconstexpr KernelSource kSources[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "    {\"${name}\", R\"kernel(${content})kernel\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const KernelSource> kernel_sources() { return kSources; }\n\n}  // namespace convoy::cuda\n")
file(WRITE ${OUTPUT} "${text}")

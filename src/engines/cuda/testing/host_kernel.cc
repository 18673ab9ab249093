#include "engines/cuda/testing/host_kernel.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "engines/reference/reference.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda::testing {

namespace fs = std::filesystem;

Result<HostKernel> HostKernel::compile(const ProgramSource& source, const std::string& name) {
  std::string text = "#include \"ptx.cuh\"\n" + std::string(source.text);
  constexpr std::string_view kShared = "extern __shared__ __align__(16) char shared[];";
  if (const std::size_t at = text.find(kShared); at != std::string::npos) {
    text.replace(at, kShared.size(), "char* const shared = dynamic_shared;");
  }
  text += fmt::format(
      "extern \"C\" bool walk_kernel(void* const* arguments, unsigned grid, unsigned block, bool backwards) {{\n"
      "  return walk::call_by_pointers(&{}, arguments, grid, block, backwards);\n}}\n",
      name);
  std::vector<std::string> texts;  // that end with a 0
  texts.reserve(source.files.size());
  std::vector<generate::KernelFile> files;
  for (const auto& file : source.files) {
    if (fs::exists(fs::path(CONVOY_HOST_FOLDER) / file.name)) continue;
    texts.emplace_back(file.text);
    files.push_back({file.name.data(), texts.back().c_str()});
  }
  const fs::path folder = generate::host_library_folder();
  const std::shared_ptr<void> cleanup(nullptr, [&](void*) { fs::remove_all(folder); });
  for (const auto& file : fs::directory_iterator(CONVOY_HOST_FOLDER)) {
    fs::copy_file(file.path(), folder / file.path().filename());
  }
  CONVOY_TRY(const fs::path file, generate::host_library(text, files, folder));
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{ErrorCode::internal, dlerror()};
  HostKernel kernel;
  kernel.library_ = {library, [](void* handle) { dlclose(handle); }};
  kernel.call_ = reinterpret_cast<decltype(kernel.call_)>(dlsym(library, "walk_kernel"));
  return kernel;
}

bool HostKernel::run(std::span<void* const> arguments, const Launch& shape, bool backwards) const {
  return call_(arguments.data(), shape.grid.x, shape.block.x, backwards);
}

std::string walk(const ConvProblem& problem, const convoy::testing::ConvData& data,
                 const std::function<bool(const ConvArgs&, bool)>& run) {
  ConvArgs args = data.args();
  const auto team = make_cpu_team(1);
  const Expectation expectation(problem, args, {}, *team);
  for (const bool backwards : {false, true}) {
    convoy::testing::GuardedBuffer out = data.make_out();
    data.reset(out);
    args.out = out.data();
    if (!run(args, backwards)) return "threads of a block part at a barrier";
    if (std::string trespass = data.trespass(out); !trespass.empty()) return trespass;
    const Verification verdict = expectation.compare(out.data(), Arithmetic::direct);
    if (!verdict.ok()) {
      return fmt::format("error {} at {}: {} instead of {}", verdict.max_error, to_string(verdict.worst),
                         verdict.actual, verdict.expected);
    }
  }
  return "";
}

std::string walk(PlannedKernels& planned, const ConvProblem& problem, const convoy::testing::ConvData& data,
                 std::string_view text) {
  std::vector<HostKernel> kernels;
  for (const KernelLaunch& launch : planned.kernels) {
    const auto source = program_source(launch.request, text);
    if (!source.ok()) return source.error().message;
    auto kernel = HostKernel::compile(*source, launch.entry);
    if (!kernel.ok()) return kernel.error().message;
    kernels.push_back(std::move(*kernel));
  }
  return walk(problem, data, [&](const ConvArgs& args, bool backwards) {
    const void* in = problem.pass == Pass::dgrad ? args.y : args.x;
    const void* other = problem.pass == Pass::wgrad ? args.y : args.w;
    void* to = args.out;
    struct {
      const void *bias, *z, *slopes;
    } epilogue{args.bias, args.z, args.slopes};
    std::vector<std::byte> workspace(static_cast<std::size_t>(planned.workspace_bytes), std::byte{0xff});
    void* partial = workspace.data();
    void* const one[] = {&in, &other, &to, &epilogue, planned.sizes.data()};
    void* const first[] = {&in, &other, &partial};
    void* const second[] = {&partial, &to, &epilogue};
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const std::span<void* const> arguments = kernels.size() == 1 ? std::span<void* const>(one)
                                               : k == 0            ? std::span<void* const>(first)
                                                                   : std::span<void* const>(second);
      if (!kernels[k].run(arguments, planned.kernels[k].shape, backwards)) return false;
    }
    return true;
  });
}

}  // namespace convoy::cuda::testing

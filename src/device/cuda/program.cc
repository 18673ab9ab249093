#include "device/cuda/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/background.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/cuda/code_cache.h"
#include "device/cuda/nvrtc.h"

namespace convoy::cuda {
namespace {

// Ends a program however its compilation went.
struct Program {
  const NvrtcApi* api;
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle != nullptr) api->DestroyProgram(&handle);
  }
};

// What the compiler is asked for: machine code where it knows the architecture, else the newest PTX that it can make.
struct Target {
  std::string option;
  bool machine_code = true;
};

// NVRTC parses one program at a time, for all threads; what follows, some nine tenths, it does side by side. So
// everything counts that shortens what it parses, for the first kernel's own time and for that of those that wait.
// --minimal leaves out textures and CUDA's own functions and types, which no kernel here uses: a third of what an empty
// program takes. Where NVRTC's own cache has the code, the assembler reports nothing, without --no-cache. Older
// versions may not know the two.
constexpr int kKnowsBoth = 13000;
bool is_minimal(const NvrtcApi& api) { return api.version >= kKnowsBoth; }

enum class Need { now, later };

// Whose source NVRTC parses: what is needed now in whatever order NVRTC takes it, what is needed later one after
// another, and when nothing else is to be parsed.
class Parsing {
 public:
  // False: a stop was asked for, which all that is needed later obeys.
  bool begin(Need need, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (need == Need::now) {
      ++now_;
      return true;
    }
    return changed_.wait(lock, stop, [&, turn = turns_++] { return now_ == 0 && turn == turn_; });
  }
  void end(Need need) {
    const std::lock_guard lock(mutex_);
    if (need == Need::now) {
      --now_;
    } else {
      ++turn_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t now_ = 0, turns_ = 0, turn_ = 0;
};

Parsing& parsing() {
  static Parsing& all = *new Parsing;  // never destroyed: plans may be made at exit
  return all;
}

// From its beginning until the source has been parsed, or needn't be.
class ParsingPermit {
 public:
  ParsingPermit(Need need, const std::stop_token& stop) : need_(need), taken_(parsing().begin(need, stop)) {}
  ParsingPermit(const ParsingPermit&) = delete;
  ParsingPermit& operator=(const ParsingPermit&) = delete;
  ~ParsingPermit() { end(); }
  explicit operator bool() const { return taken_; }
  void end() {
    if (std::exchange(taken_, false)) parsing().end(need_);
  }

 private:
  Need need_;
  bool taken_;
};

Result<Target> target_for(const NvrtcApi& api, int architecture) {
  int count = 0;
  if (api.GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) {
    return Error{ErrorCode::unsupported, "NVRTC doesn't say which architectures it supports"};
  }
  std::vector<int> known(count);
  api.GetSupportedArchs(known.data());
  if (std::find(known.begin(), known.end(), architecture) != known.end()) {
    // The instructions that belong to one architecture alone (Hopper's wgmma) need the suffix.
    return Target{fmt::format("--gpu-architecture=sm_{}{}", architecture, architecture >= 90 ? "a" : "")};
  }
  std::erase_if(known, [&](int each) { return each > architecture; });
  if (known.empty()) {
    return Error{
        ErrorCode::unsupported,
        fmt::format("NVRTC {} can't compile for sm_{}: the architecture is too old for it", api.text, architecture)};
  }
  return Target{fmt::format("--gpu-architecture=compute_{}", *std::max_element(known.begin(), known.end())), false};
}

Error failed(const NvrtcApi& api, nvrtcResult status, const ProgramSource& source, const std::string& log) {
  return {ErrorCode::internal, fmt::format("NVRTC {}: {} for sm_{}: {}\n{}", api.text, source.name, source.architecture,
                                           api.GetErrorString(status), log)};
}

std::string options_text(const NvrtcApi& api, const Target& target) {
  return fmt::format("{} --std=c++17 nvrtc={}{}", target.option, api.version, is_minimal(api) ? " --minimal" : "");
}

// What threads compile now, so that those that want the same wait for it.
class UnderWay {
 public:
  using Outcome = std::shared_ptr<const Result<KernelImage>>;

  // What make() gives. Where another thread is making the same, wait() is called and its outcome is taken, but for a
  // failure: it may have been told to stop.
  template <class Make, class Wait>
  Result<KernelImage> get(const CodeKey& key, const Make& make, const Wait& wait) {
    std::promise<Outcome> promise;
    std::shared_future<Outcome> other;
    {
      const std::lock_guard lock(mutex_);
      const auto [at, first] = running_.try_emplace({key.high, key.low});
      if (first) {
        at->second = promise.get_future().share();
      } else {
        other = at->second;
      }
    }
    if (other.valid()) {
      wait();
      const Outcome made = other.get();
      return made->ok() ? *made : make();
    }
    const auto end = [&](auto&& tell) {
      {
        const std::lock_guard lock(mutex_);
        running_.erase({key.high, key.low});
      }
      tell();
    };
    try {
      auto made = std::make_shared<const Result<KernelImage>>(make());
      end([&] { promise.set_value(made); });
      return *made;
    } catch (...) {
      end([&] { promise.set_exception(std::current_exception()); });
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_future<Outcome>> running_;
};

UnderWay& under_way() {
  static UnderWay& all = *new UnderWay;  // never destroyed: plans may be made at exit
  return all;
}

Result<KernelImage> image_of(const ProgramSource& source, Need need, const std::stop_token& stop) {
  CONVOY_TRY(const NvrtcApi* api, nvrtc());
  CONVOY_TRY(const Target target, target_for(*api, source.architecture));
  const CodeKey key = code_key(source, options_text(*api, target));
  const CodeCache& cache = code_cache();
  if (std::optional<KernelImage> found = cache.find(key)) return std::move(*found);
  ParsingPermit permit(need, stop);
  if (!permit) return Error{ErrorCode::unsupported, source.name + " was not compiled in time"};
  const auto make = [&]() -> Result<KernelImage> {
    // Another thread may have ended since this one looked.
    if (std::optional<KernelImage> found = cache.find(key)) return std::move(*found);
    const auto go_on = [&] {
      permit.end();
      return !stop.stop_requested();
    };
    CONVOY_TRY(Compilation compiled, compile_program(source, false, go_on));
    stop_background_first();  // NVRTC may have registered something for the exit
    cache.keep(key, compiled.image);
    return std::move(compiled.image);
  };
  return under_way().get(key, make, [&] { permit.end(); });
}

}  // namespace

Result<Compilation> compile_program(const ProgramSource& source, bool verbose, const std::function<bool()>& go_on) {
  CONVOY_TRY(const NvrtcApi* api, nvrtc());
  CONVOY_TRY(const Target target, target_for(*api, source.architecture));
  const auto ended = [](std::string_view text) { return std::string(text); };  // by a zero, as C wants it
  std::vector<std::string> strings;
  for (const SourceFile& file : source.files) strings.insert(strings.end(), {ended(file.text), ended(file.name)});
  std::vector<const char*> texts, names;
  for (std::size_t i = 0; i < strings.size(); i += 2) {
    texts.push_back(strings[i].c_str());
    names.push_back(strings[i + 1].c_str());
  }
  Program program{api};
  nvrtcResult status = api->CreateProgram(&program.handle, ended(source.text).c_str(), source.name.c_str(),
                                          static_cast<int>(texts.size()), texts.data(), names.data());
  if (status != NVRTC_SUCCESS) return failed(*api, status, source, "");
  if (go_on && api->SetFlowCallback != nullptr) {
    constexpr auto ended = [](void* proceed, void*) {
      return (*static_cast<const std::function<bool()>*>(proceed))() ? 0 : 1;
    };
    api->SetFlowCallback(program.handle, +ended, const_cast<std::function<bool()>*>(&go_on));
  }
  std::vector<const char*> options{target.option.c_str(), "--std=c++17", "--extra-device-vectorization"};
  if (is_minimal(*api)) options.push_back("--minimal");
  if (verbose) options.push_back("--ptxas-options=-v");
  if (verbose && api->version >= kKnowsBoth) options.push_back("--no-cache");
  const double start = monotonic_seconds();
  status = api->CompileProgram(program.handle, static_cast<int>(options.size()), options.data());
  log(LogLevel::info, "compile",
      {{"kernel", source.name},
       {"architecture", fmt::format("{}", source.architecture)},
       {"seconds", fmt::format("{:.3f}", monotonic_seconds() - start)}});

  Compilation result;
  std::size_t size = 0;
  if (api->GetProgramLogSize(program.handle, &size) == NVRTC_SUCCESS && size > 1) {
    result.log.resize(size);
    api->GetProgramLog(program.handle, result.log.data());
    result.log.resize(size - 1);
  }
  if (status != NVRTC_SUCCESS) return failed(*api, status, source, result.log);
  status = target.machine_code ? api->GetCUBINSize(program.handle, &size) : api->GetPTXSize(program.handle, &size);
  if (status != NVRTC_SUCCESS || size == 0) return failed(*api, status, source, "no code came of it");
  result.image.resize(size);
  status = target.machine_code ? api->GetCUBIN(program.handle, result.image.data())
                               : api->GetPTX(program.handle, result.image.data());
  if (status != NVRTC_SUCCESS) return failed(*api, status, source, "its code can't be had");
  return result;
}

bool is_kept(const ProgramSource& source) {
  if (code_cache().folder().empty()) return true;
  const auto api = nvrtc();
  if (!api.ok()) return true;
  const auto target = target_for(**api, source.architecture);
  return !target.ok() || code_cache().has(code_key(source, options_text(**api, *target)));
}

Result<KernelImage> program_image(const ProgramSource& source) { return image_of(source, Need::now, {}); }

void compile_for_later(const ProgramSource& source, const std::stop_token& stop) {
  static_cast<void>(image_of(source, Need::later, stop).ok());  // whoever wants it will see an error
}

}  // namespace convoy::cuda

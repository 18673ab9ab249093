#include "interposer/substitution.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>

#include "base/shared_library.h"
#include "interposer/configurations.h"
#include "interposer/fast_path.h"
#include "interposer/inside.h"
#include "interposer/order.h"
#include "interposer/process.h"
#include "interposer/real.h"
#include "interposer/variant_pack.h"

namespace convoy::interposer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kClearly = 0.8;  // of a time: where the program times both, there is no doubt

// The library beside this one; null: `reason`.
const EngineLibrary* open_library(std::string& reason) {
  Dl_info self{};
  std::filesystem::path file = kEngineLibrary;
  if (dladdr(reinterpret_cast<const void*>(&open_library), &self) != 0 && self.dli_fname != nullptr) {
    file = std::filesystem::path(self.dli_fname).parent_path() / kEngineLibrary;
  }
  void* opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = opened == nullptr ? nullptr : symbol_of(opened, kEngineLibraryEntry);
  if (entry != nullptr) return reinterpret_cast<EngineLibraryEntry>(entry)();
  const char* words = dlerror();
  reason = words == nullptr ? fmt::format("{} has no {}", file.string(), kEngineLibraryEntry) : words;
  return nullptr;
}

// Opened once, for good.
const EngineLibrary* engine_library(std::string& reason) {
  static std::string why;
  static const EngineLibrary* const library = open_library(why);
  reason = why;
  return library;
}

std::optional<double> seconds_of(const std::vector<KnownTime>& known, const Candidate& candidate) {
  for (const KnownTime& time : known) {
    if (time.candidate == candidate) return time.seconds;
  }
  return std::nullopt;
}

// What a call keeps the host for, where that is longer than for cuDNN's plans (Convoy's own engines take less). cuDNN's
// older interface looks for its kernels at each call: 71 us in a loop of PyTorch's where the plan took 16 (H100 and a
// Xeon, bench/results/gpu-pytorch-host-time-2026-11-25.json). cudnn.nhwc launches copies, too:
// at most 27 us a call there, PyTorch's part in them, where one kernel takes 11 to 12.
double host_seconds(const Candidate& candidate) {
  if (candidate.engine.starts_with("cudnn.legacy.")) return 60e-6;
  return candidate.engine == "cudnn.nhwc" ? 15e-6 : 0;
}

const KnownTime* fastest(const std::vector<KnownTime>& known) {
  const auto found =
      std::min_element(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return found == known.end() ? nullptr : &*found;
}

}  // namespace

const Substitute& Substitution::ready(const GraphRecord& row, const Candidate& candidate, MathMode math) {
  const std::string problem = row.problem + (math == MathMode::strict ? "" : fmt::format(":math={}", name_of(math)));
  const std::string name = print(candidate);
  const auto [found, is_new] = substitutes_.try_emplace(fmt::format("{}\t{}\t{}", current_device(), problem, name));
  Substitute& substitute = found->second;
  if (!is_new) return substitute;
  substitute.candidate = candidate;
  substitute.library = engine_library(substitute.reason);
  if (substitute.library == nullptr) return substitute;
  const Inside inside;
  std::array<char, 512> error{};
  substitute.plan = substitute.library->prepare(problem.c_str(), name.c_str(), choices_.filters.sm_count.value_or(0),
                                                error.data(), error.size());
  if (substitute.plan == nullptr) {
    substitute.reason = error.data();
    return substitute;
  }
  substitute.workspace_bytes = substitute.library->workspace_bytes(substitute.plan);
  std::istringstream notes(substitute.library->notes(substitute.plan));
  for (std::string note; notes >> note;) substitute.notes.push_back(note);
  return substitute;
}

std::string Substitution::unfit(const Substitute& substitute, const EngineConfig& replaced) const {
  if (substitute.plan == nullptr) return "it could not be made ready: " + substitute.reason;
  if (substitute.failed) return "it failed when it ran";
  const std::string filter = choices_.filters.forbids(substitute.candidate, substitute.notes,
                                                      static_cast<std::int64_t>(substitute.workspace_bytes));
  if (!filter.empty()) return "the filter takes it away: " + filter;
  const unsigned losses = losses_of(replaced.notes) | losses_of(replaced.hidden_notes);
  if ((losses_of(substitute.notes) & ~losses) == 0) return "";
  return fmt::format("{}: {} has no such note", fmt::join(substitute.notes, ", "),
                     print(without_automatic(replaced.candidate)));
}

const StandIn* Substitution::put(const Replaceable& plan, const Substitute& substitute) {
  if (plan.timed) carriers_.insert_or_assign(&plan.row, plan.plan.engine_config.candidate);
  fast_path.substituting.store(true, std::memory_order_relaxed);
  return &stand_ins_.emplace_back(StandIn{&substitute, plan.operands, plan.row, plan.plan});
}

const StandIn* Substitution::choose(const Replaceable& plan, const std::vector<KnownTime>& cudnns,
                                    std::vector<KnownTime> substitutes) {
  const Candidate replaced = without_automatic(plan.plan.engine_config.candidate);
  const KnownTime* best = fastest(cudnns);
  std::optional<double> compared = seconds_of(cudnns, replaced);
  if (plan.timed && best != nullptr) compared = std::min(best->seconds, compared.value_or(kInfinity));
  // Where nobody knows what the plan takes, nobody knows that another engine is faster.
  std::erase_if(substitutes, [&](const KnownTime& each) { return !compared || !(each.seconds < kFaster * *compared); });
  std::sort(substitutes.begin(), substitutes.end(),
            [](const KnownTime& a, const KnownTime& b) { return a.seconds < b.seconds; });
  const StandIn* chosen = nullptr;
  std::vector<std::pair<Candidate, std::string>> refused;
  std::unique_lock lock(mutex_);
  for (const KnownTime& known : substitutes) {
    // A program whose host is ahead of the GPU stays ahead, and one that waits for its host doesn't wait longer.
    if (const double host = host_seconds(known.candidate); known.seconds < host) {
      refused.emplace_back(known.candidate, fmt::format("a call keeps the host for {:.0f} us, the GPU for {:.1f}",
                                                        1e6 * host, 1e6 * known.seconds));
      continue;
    }
    if (plan.timed) {
      const auto carrier = carriers_.find(&plan.row);
      if (carrier != carriers_.end() && carrier->second != plan.plan.engine_config.candidate) break;
      // Where it is in doubt, the program's timing is to decide between it and the best that cuDNN has.
      if (best->candidate == replaced && known.seconds > kClearly * best->seconds) break;
    }
    const Substitute& substitute = ready(plan.row, known.candidate, known.math);
    std::string reason = unfit(substitute, plan.plan.engine_config);
    if (reason.empty()) {
      chosen = put(plan, substitute);
      break;
    }
    refused.emplace_back(known.candidate, std::move(reason));
  }
  lock.unlock();
  for (const auto& [candidate, reason] : refused) recorder_.not_substituted(plan.row, candidate, reason);
  if (chosen != nullptr) recorder_.substituted(plan.plan, chosen->substitute->candidate);
  return chosen;
}

Result<const StandIn*> Substitution::obey(const Replaceable& plan, const Candidate& wanted) {
  const StandIn* chosen = nullptr;
  {
    const std::lock_guard lock(mutex_);
    // As the plan does it, whose configuration says whether it uses TF32.
    const bool tf32 = plan.row.is_f32() && std::ranges::count(plan.plan.engine_config.notes, "TENSOR_CORE") > 0;
    const Substitute& substitute = ready(plan.row, wanted, tf32 ? MathMode::tf32 : MathMode::strict);
    if (std::string reason = unfit(substitute, plan.plan.engine_config); !reason.empty())
      return Error{ErrorCode::unsupported, reason};
    chosen = put(plan, substitute);
  }
  recorder_.substituted(plan.plan, wanted);
  return chosen;
}

bool Substitution::run(const StandIn& stand_in, cudnnHandle_t handle, cudnnBackendDescriptor_t variant_pack) {
  const Substitute& substitute = *stand_in.substitute;
  if (substitute.failed.load(std::memory_order_relaxed)) return false;
  const VariantPack* pack = pack_of(variant_pack);
  if (pack == nullptr) return false;
  cudaStream_t stream = nullptr;
  if (real().GetStream == nullptr || real().GetStream(handle, &stream) != CUDNN_STATUS_SUCCESS) return false;
  const Operands& operands = stand_in.operands;
  bool complete = true;
  const auto pointer = [&](const std::optional<std::int64_t>& uid) -> void* {
    if (!uid) return nullptr;
    void* const found = pack->pointer_of(*uid);
    complete &= found != nullptr;
    return found;
  };
  EngineArguments arguments;
  arguments.x = pointer(operands.x);
  arguments.w = pointer(operands.w);
  arguments.y = pointer(operands.y);
  arguments.out = pointer(operands.out);
  arguments.bias = pointer(operands.bias);
  arguments.z = pointer(operands.z);
  arguments.workspace = pack->workspace;
  arguments.workspace_bytes = substitute.workspace_bytes;
  arguments.stream = stream;
  if (!complete || (arguments.workspace == nullptr && substitute.workspace_bytes > 0)) return false;
  const Inside inside;
  std::array<char, 512> error;  // (eight cache lines: not filled at each execution)
  error[0] = '\0';
  if (substitute.library->execute(substitute.plan, &arguments, error.data(), error.size())) return true;
  if (!substitute.failed.exchange(true)) {  // from now on the program's own plans run
    recorder_.not_substituted(stand_in.row, substitute.candidate,
                              fmt::format("it failed when it ran: {}", error.data()));
  }
  return false;
}

}  // namespace convoy::interposer

// Measurements of candidates, and the interface of what remembers them (tuning_database.h has the one on disk).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy {

// What the caches hold when a sample starts.
enum class CacheState : std::uint8_t {
  cold,      // what they hold inside a network: the activations (dgrad, wgrad: the gradient of y) as the step before
             // leaves them, and nothing else; a CPU's shared cache is left alone
  warm,      // all of the problem that fits; with several threads activations lie in part in other cores' caches
  all_cold,  // nothing of the problem
  network,   // what they hold in a run of a network, in which the candidate was timed beside others (network_tuning.h).
             // Which network is not in the key: for another one that has the problem it is a hint
  rotating,  // on a GPU: what executions of the same problem on other tensors leave. A sample is a row of executions,
             // each on other tensors, so that neither the caches nor the start of a single one decides
};
std::string_view name_of(CacheState caches);  // "cold", "warm", "all-cold", "network", "rotating"
Result<CacheState> parse_cache_state(std::string_view name);

// Everything besides the candidate that can change what is measured. Filters, limits, budgets and rules are not in it:
// they decide who may win, never what is stored.
struct MeasurementKey {
  std::string problem;  // the problem string; with it alignment, math mode, alpha, beta, epilogue
  // Class of the device: "cpu INTEL(R) XEON(R) ... l1d=48K l2=2M l3=260M", "cuda NVIDIA H200 sms=132 l2=60M mem=139G".
  std::string device;
  // What its engines may use: "avx512 vnni bf16 fp16 amx_bf16 amx_int8" with CONVOY_ISA's cap applied, "sm_90", with
  // " target_sms=66" where a selection leaves SMs free.
  std::string isa;
  std::string driver;  // of the device: "580.159.04 CUDA 13.0"; empty for the CPU, which has none
  int threads = 1;
  bool constant_weights = true;  // packed once, at plan time; otherwise at every execution
  CacheState caches = CacheState::cold;
  friend auto operator<=>(const MeasurementKey&, const MeasurementKey&) = default;
};
MeasurementKey measurement_key(const ConvProblem& problem, const PlanRequest& request, CacheState caches);

// How much a measurement says, least first.
enum class MeasurementState : std::uint8_t {
  partial,   // the budget ended, or tuning was interrupted: a rough time, worth measuring again
  cut_off,   // too slow to win against the best known then, so not timed further: a rough time that is never chosen
             // while there is a better state, and measured again only when the problem's contestants change
  complete,  // timed until the timer's rules were satisfied, or failed
};
std::string_view name_of(MeasurementState state);  // "partial", "cut_off", "complete"
Result<MeasurementState> parse_measurement_state(std::string_view name);

// A candidate that was timed and verified.
struct Measurement {
  Candidate candidate;
  int revision = 1;      // of the engine (EngineInfo::revision) that was measured
  std::string provider;  // and its EngineInfo::provider
  double median_seconds = 0;
  double spread = 0;  // (third quartile - first quartile) / median
  int samples = 0;
  MeasurementState state = MeasurementState::partial;
  std::size_t workspace_bytes = 0;
  double max_error = 0;                 // largest |out - oracle| in units of the tolerance; over 1 is wrong
  double max_error_absolute = 0;        // |out - oracle| where max_error was found
  std::optional<double> energy_joules;  // of one execution, where the machine counts it
  // Of the measuring itself, on a GPU: the median clock of its SMs meanwhile (observed, never set), and the kernels
  // that an execution launches. Not stored.
  std::optional<double> clock_mhz;
  std::optional<int> kernels;
  std::optional<Error> failure;  // it could not be planned or run, or was wrong: it can't win
};

// Whether a stored measurement still speaks for the engine it names: the engine is there, with this revision and
// provider. A newer revision or another provider version so invalidates that engine's measurements and no others.
bool is_current(const Measurement& measurement, std::span<const Engine* const> engines);

// Remembers measurements between selections. Implementations are safe to use from several threads.
class MeasurementStore {
 public:
  virtual ~MeasurementStore() = default;

  // Everything stored under the key, of any engine, revision and provider, in the order of print(candidate). Errors:
  // corrupt, internal (the store can't be read).
  virtual Result<std::vector<Measurement>> find(const MeasurementKey& key) = 0;

  // Stored, for good, when it returns. One of the same candidate, revision and provider is replaced, but for one of
  // a better state; in a network, where the states of a problem's candidates are a verdict on all of them, only a
  // partial one replaces nothing better. A failure for lack of memory says nothing about the candidate and is not kept.
  // Errors: those of find, and unsupported where the store can't be written.
  virtual Result<void> store(const MeasurementKey& key, const Measurement& measurement) = 0;
};

}  // namespace convoy

#include "report/program_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/notes.h"
#include "select/choose/notes.h"

namespace convoy::report {
namespace {

// Whether it can run in a program: in the place of a plan of cuDNN's newer API all can, but for oracles.
bool can_run_in(const RecordedGraph& graph, const std::string& candidate) {
  constexpr std::string_view legacy = "cudnn.legacy.", oracle = "cuda.reference";
  return calls_legacy_api(graph) ? candidate.starts_with(legacy) : !candidate.starts_with(oracle);
}

class Builder {
 public:
  Builder(Convolution& made, const KnownTimes& known, const NotesOf& notes_of, const std::vector<std::string>& filters)
      : made_(made), known_(known), notes_of_(notes_of), filters_(filters) {}

  void build() {
    const RecordedGraph& graph = made_.graph;
    for (const std::string& candidate : graph.offered) at(candidate).place = ++offered_;
    for (const RecordedPlan& plan : graph.plans) add(plan);
    for (const NotPlaced& each : graph.not_placed) at(each.candidate).not_placed = each.reason;
    for (Algorithm& algorithm : made_.algorithms) {
      const auto found = graph.notes.find(algorithm.candidate);
      if (found != graph.notes.end()) algorithm.notes = found->second;
    }
    find_used();
    add_times();
    std::stable_sort(made_.algorithms.begin(), made_.algorithms.end(), before);
    find_used();  // the order has changed
    if (!made_.used) return;
    find_asked();
    find_best();
    find_instead();
    add_up();
  }

 private:
  static bool before(const Algorithm& a, const Algorithm& b) {
    const auto rank = [](const Algorithm& x) {
      return std::tuple(x.place > 0 ? x.place : std::numeric_limits<int>::max(), !x.failure.empty(), -x.calls,
                        x.seconds.value_or(std::numeric_limits<double>::infinity()));
    };
    return rank(a) < rank(b);
  }

  Algorithm& at(const std::string& candidate) {
    const std::string name = canonical(candidate);
    for (Algorithm& algorithm : made_.algorithms) {
      if (canonical(algorithm.candidate) == name) return algorithm;
    }
    made_.algorithms.push_back({.candidate = candidate});
    return made_.algorithms.back();
  }
  std::optional<std::size_t> index_of(std::string_view candidate) const {
    const std::string name = canonical(candidate);
    for (std::size_t i = 0; i < made_.algorithms.size(); ++i) {
      if (canonical(made_.algorithms[i].candidate) == name) return i;
    }
    return std::nullopt;
  }

  void add(const RecordedPlan& plan) {
    Algorithm& algorithm = at(plan.candidate);
    algorithm.planned = plan.in_place_of.empty();
    algorithm.in_place_of = plan.in_place_of;
    algorithm.calls += plan.calls;
    algorithm.captured += plan.captured;
    if (plan.seconds > 0) {  // until the database has a better one
      algorithm.seconds = plan.seconds;
      algorithm.rough = true;
    }
    if (plan.failure.empty()) {
      algorithm.workspace_bytes = std::max(algorithm.workspace_bytes.value_or(0), plan.workspace_bytes);
    } else if (algorithm.calls == 0) {
      algorithm.failure = plan.failure;
      algorithm.detail = plan.failure_detail;
    }
  }

  void find_used() {
    made_.used.reset();
    for (std::size_t i = 0; i < made_.algorithms.size(); ++i) {
      const std::int64_t calls = made_.algorithms[i].calls;
      if (calls > 0 && (!made_.used || calls > made_.algorithms[*made_.used].calls)) made_.used = i;
    }
  }

  void add_times() {
    const std::string wanted = made_.used ? canonical(made_.algorithms[*made_.used].candidate) : std::string();
    const auto known = known_.find(made_.graph.device, made_.problem, wanted);
    if (!known) return;
    made_.caches = known->caches;
    for (const KnownTime& time : known->times) {
      Algorithm& algorithm = at(time.candidate);
      if (!algorithm.workspace_bytes && time.failure.empty()) {
        algorithm.workspace_bytes = static_cast<std::int64_t>(time.workspace_bytes);
      }
      if (!time.failure.empty()) {
        if (algorithm.failure.empty()) algorithm.failure = "measured: " + time.failure;
        continue;
      }
      algorithm.seconds = time.seconds;
      algorithm.spread = time.spread;
      algorithm.rough = time.state != MeasurementState::complete;
      algorithm.joules = time.joules;
    }
  }

  // Notes are an engine's: knobs don't change them. Asked for where they matter only, since cuDNN may have to be
  // loaded.
  const std::optional<std::vector<std::string>>& notes(Algorithm& algorithm) {
    if (algorithm.notes) return algorithm.notes;
    const auto candidate = parse_candidate(algorithm.candidate);
    if (!candidate) return algorithm.notes;
    for (const Algorithm& other : made_.algorithms) {
      const auto same = other.notes ? parse_candidate(other.candidate) : Result<Candidate>(Candidate());
      if (same && same->engine == candidate->engine) return algorithm.notes = other.notes;
    }
    if (notes_of_) algorithm.notes = notes_of_(made_.graph.device, made_.problem, *candidate);
    return algorithm.notes;
  }

  // What was put first, by a rule or by times; else the best of cuDNN's order of which a plan was made.
  void find_asked() {
    if (!made_.graph.steered.empty()) made_.asked = index_of(made_.graph.steered);
    for (std::size_t i = 0; i < made_.algorithms.size() && !made_.asked; ++i) {
      if (made_.algorithms[i].planned) made_.asked = i;
    }
  }

  void find_best() {
    const Algorithm& used = made_.algorithms[*made_.used];
    const auto replaced = index_of(used.in_place_of);
    const std::vector<std::string> allowed =
        (replaced ? made_.algorithms[*replaced] : used).notes.value_or(std::vector<std::string>());
    const auto fastest = [&](std::optional<std::size_t>& found, std::size_t i) {
      if (!found || made_.algorithms[i].seconds < made_.algorithms[*found].seconds) found = i;
    };
    for (std::size_t i = 0; i < made_.algorithms.size(); ++i) {
      Algorithm& algorithm = made_.algorithms[i];
      if (i == *made_.used) {
        algorithm.permitted = true;
        if (algorithm.seconds) fastest(made_.best, i);
        continue;
      }
      if (!algorithm.failure.empty() || !algorithm.seconds) continue;
      if (used.seconds && *algorithm.seconds >= *used.seconds && !algorithm.notes) continue;  // it changes nothing
      const bool here = can_run_in(made_.graph, algorithm.candidate);
      const bool known = notes(algorithm).has_value();
      algorithm.permitted = here && known && loses_no_more(*algorithm.notes, allowed);
      if (algorithm.permitted) fastest(made_.best, i);
      if (!here && (!known || loses_no_more(*algorithm.notes, allowed))) fastest(made_.best_elsewhere, i);
      if (here && !algorithm.permitted) fastest(made_.best_forbidden, i);
    }
    if (!made_.best) return;
    for (std::optional<std::size_t>* other : {&made_.best_elsewhere, &made_.best_forbidden}) {
      if (*other && !(made_.algorithms[**other].seconds < made_.algorithms[*made_.best].seconds)) other->reset();
    }
  }

  // Without steering and benchmark mode the program's filters decided: what ran is what it takes.
  void find_instead() {
    if (made_.graph.steered.empty() && !made_.graph.benchmark) {
      const auto replaced = index_of(made_.algorithms[*made_.used].in_place_of);
      made_.instead = replaced ? replaced : made_.used;
      return;
    }
    const bool deterministic = std::any_of(filters_.begin(), filters_.end(), [](const std::string& filter) {
      return filter.find("deterministic") != std::string::npos;
    });
    for (std::size_t i = 0; i < made_.algorithms.size(); ++i) {
      const Algorithm& algorithm = made_.algorithms[i];
      if (algorithm.place == 0 || !algorithm.failure.empty() || !algorithm.seconds || !algorithm.notes) continue;
      const auto has = [&](std::string_view note) { return selection::has_note(*algorithm.notes, note); };
      if (made_.math.math == MathMode::strict && (has("TENSOR_CORE") || has("DOWN_CONVERT_INPUTS"))) continue;
      if (deterministic && has("NONDETERMINISTIC")) continue;
      made_.instead = i;
      return;
    }
  }

  void add_up() {
    const auto seconds_of = [&](std::optional<std::size_t> index) {
      return index ? made_.algorithms[*index].seconds : std::nullopt;
    };
    const auto instead = seconds_of(made_.instead), best = seconds_of(made_.best);
    double joules = 0;
    bool all_joules = true;
    for (std::size_t i = 0; i < made_.algorithms.size(); ++i) {
      const Algorithm& algorithm = made_.algorithms[i];
      if (algorithm.calls == 0 || !algorithm.seconds) continue;
      const auto calls = static_cast<double>(algorithm.calls);
      made_.timed_calls += algorithm.calls;
      made_.seconds += calls * *algorithm.seconds;
      if (instead) made_.gain_taken += calls * (*instead - *algorithm.seconds);
      if (best) made_.gain_not_taken += calls * std::max(0.0, *algorithm.seconds - *best);
      joules += calls * algorithm.joules.value_or(0);
      all_joules = all_joules && algorithm.joules;
    }
    if (all_joules && made_.timed_calls > 0) made_.joules = joules;
  }

  Convolution& made_;
  const KnownTimes& known_;
  const NotesOf& notes_of_;
  const std::vector<std::string>& filters_;
  int offered_ = 0;
};

}  // namespace

std::vector<std::string> losses(const std::vector<std::string>& notes) {
  std::vector<std::string> lost;
  for (const std::string_view loss : note::kLosses) {
    if (selection::has_note(notes, loss)) lost.emplace_back(loss);
  }
  return lost;
}

bool loses_no_more(const std::vector<std::string>& notes, const std::vector<std::string>& than) {
  const std::vector<std::string> lost = losses(notes);
  return std::all_of(lost.begin(), lost.end(),
                     [&](const std::string& loss) { return selection::has_note(than, loss); });
}

std::string layer_of(const ConvProblem& problem) {
  ConvProblem layer = problem;
  layer.pass = Pass::fprop;
  layer.epilogue = {};
  layer.alpha = 1;
  layer.beta = 0;
  layer.math = MathMode::strict;
  layer.compute = DataType::f32;
  for (TensorDesc* tensor : {&layer.x, &layer.w, &layer.y}) {
    *tensor = TensorDesc::packed(problem.x.type, tensor->dims);
  }
  return print(layer);
}

ProgramReport make_program_report(Record record, const KnownTimes& known, const NotesOf& notes_of) {
  ProgramReport report;
  for (RecordedGraph& graph : record.graphs) {
    auto problem = parse_problem(graph.problem);
    if (graph.problem.empty() || !problem) {
      report.others.push_back(std::move(graph));
      continue;
    }
    Convolution& made = report.convolutions.emplace_back();
    made.graph = std::move(graph);
    made.math = inferred_math(made.graph);
    made.problem = *std::move(problem);
    made.problem.math = made.math.math;
    Builder(made, known, notes_of, record.filters).build();
    report.calls += made.graph.calls;
    report.timed_calls += made.timed_calls;
    report.seconds += made.seconds;
    report.gain_taken += made.gain_taken;
    report.gain_not_taken += made.gain_not_taken;
  }
  record.graphs.clear();
  report.record = std::move(record);
  double joules = 0;
  bool all_joules = report.timed_calls > 0;
  for (Convolution& each : report.convolutions) {
    if (report.seconds > 0) each.share = each.seconds / report.seconds;
    if (each.timed_calls > 0) all_joules = all_joules && each.joules.has_value();
    joules += each.joules.value_or(0);
  }
  if (all_joules) report.joules = joules;
  std::stable_sort(report.convolutions.begin(), report.convolutions.end(),
                   [](const Convolution& a, const Convolution& b) {
                     return std::tuple(-a.seconds, -a.graph.calls) < std::tuple(-b.seconds, -b.graph.calls);
                   });
  for (std::size_t i = 0; i < report.convolutions.size(); ++i) {
    report.convolutions[i].number = static_cast<int>(i) + 1;
  }
  return report;
}

}  // namespace convoy::report

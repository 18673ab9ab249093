#include "engines/onednn/survey.h"

#include <algorithm>
#include <unordered_map>

#include "base/fork_mutex.h"
#include "core/hash.h"
#include "engines/onednn/implementations.h"
#include "engines/onednn/request.h"

namespace convoy::onednn {
namespace {

constexpr std::size_t kKept = 4096;  // surveys of about a kilobyte

// What the implementations are compared with to see what they reorder.
struct Given {
  dnnl::memory::desc x, w, y;
};

// What the implementation costs besides computing.
SurveyedImplementation surveyed_implementation(const ConvProblem& problem, const Given& given,
                                               const dnnl::primitive_desc& description, std::size_t row, Form form) {
  const auto format = [&](int argument) { return description.query_md(dnnl::query::exec_arg_md, argument); };
  const bool fprop = problem.pass == Pass::fprop, dgrad = problem.pass == Pass::dgrad,
             wgrad = problem.pass == Pass::wgrad;
  SurveyedImplementation offer{row, form, 0, false};
  if (format(dgrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC) != given.x) offer.reordered_bytes += problem.x.bytes();
  if (format(fprop ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST) != given.y) {
    // A residual is reordered like the output.
    offer.reordered_bytes += problem.y.bytes() * (problem.epilogue.adds_z() ? 2 : 1);
  } else if (form.residual_by_sum) {
    offer.reordered_bytes += problem.y.bytes();
  }
  offer.reorders_weights = format(wgrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS) != given.w;
  return offer;
}

const SurveyedImplementation* among(const std::deque<SurveyedImplementation>& offers, std::size_t row) {
  const auto found =
      std::find_if(offers.begin(), offers.end(), [&](const SurveyedImplementation& offer) { return offer.row == row; });
  return found == offers.end() ? nullptr : &*found;
}

class Cache {
 public:
  std::shared_ptr<Survey> get(const ConvProblem& problem) {
    const std::uint64_t hash = hash_of(problem, 64, 64, 64);
    const NoFork no_fork;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Survey>& kept = surveys_[hash];
    if (kept && equal_but_for_alignment(kept->problem(), problem)) return kept;
    if (!kept) order_.push_back(hash);
    kept = std::make_shared<Survey>(problem);  // of two with one hash the later is kept
    std::shared_ptr<Survey> survey = kept;
    if (order_.size() > kKept) {
      surveys_.erase(order_.front());
      order_.pop_front();
    }
    return survey;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Survey>> surveys_;
  std::deque<std::uint64_t> order_;  // oldest first
};

}  // namespace

Survey::Survey(const ConvProblem& problem) : problem_(problem) {
  for (const Form& form : forms_of(problem)) walks_.push_back({form, false, false, {}, {}});
}

void Survey::ask(Walk& walk, std::size_t up_to_row) const {
  walk.begun = true;
  if (ended()) return;
  const OmpThreads threads(1);
  try {
    const Given given{as_given(problem_, problem_.x), weights_as_given(problem_), as_given(problem_, problem_.y)};
    dnnl::primitive_desc description = Request(problem_, walk.form).first();
    bool more = static_cast<bool>(description);
    for (; more; more = description.next_impl()) {
      const std::size_t row = row_of_implementation(description.impl_info_str());
      if (row == implementations().size()) {
        walk.unknown.emplace_back(description.impl_info_str());
      } else if (among(walk.offers, row) == nullptr) {
        walk.offers.push_back(surveyed_implementation(problem_, given, description, row, walk.form));
        if (row == up_to_row) break;
      }
    }
    walk.complete = !more;
  } catch (const dnnl::error&) {
    walk.complete = true;  // what was offered until then is
  }
  used(kind_of_use(problem_, implementations().size()));
}

const SurveyedImplementation* Survey::find_in(Walk& walk, std::size_t row) const {
  if (!walk.begun) ask(walk, row);
  const SurveyedImplementation* found = among(walk.offers, row);
  if (found != nullptr || walk.complete || ended()) return found;
  walk.unknown.clear();
  ask(walk, kToTheEnd);
  return among(walk.offers, row);
}

const SurveyedImplementation* Survey::find_locked(std::size_t row, bool any_layout) {
  const SurveyedImplementation* found = nullptr;
  for (Walk& walk : walks_) {
    if (walk.form.any_layout == any_layout && found == nullptr) found = find_in(walk, row);
  }
  if (found == nullptr || !any_layout) return found;
  const SurveyedImplementation* given = find_locked(row, false);
  return given != nullptr && given->reordered_bytes == found->reordered_bytes ? nullptr : found;
}

const SurveyedImplementation* Survey::find(std::size_t row, bool any_layout) {
  const NoFork no_fork;
  const std::lock_guard lock(mutex_);
  return find_locked(row, any_layout);
}

const SurveyedImplementation* Survey::find(std::size_t row) {
  const NoFork no_fork;
  const std::lock_guard lock(mutex_);
  const SurveyedImplementation* given = find_locked(row, false);
  return given != nullptr ? given : find_locked(row, true);
}

std::vector<SurveyedImplementation> Survey::all() {
  const NoFork no_fork;
  const std::lock_guard lock(mutex_);
  std::vector<SurveyedImplementation> offers;
  for (const bool any_layout : {false, true}) {
    for (std::size_t row = 0; row < implementations().size(); ++row) {
      if (const SurveyedImplementation* offer = find_locked(row, any_layout)) offers.push_back(*offer);
    }
  }
  return offers;
}

std::vector<std::string> Survey::unknown() {
  const NoFork no_fork;
  const std::lock_guard lock(mutex_);
  std::vector<std::string> unknown;
  for (Walk& walk : walks_) {
    find_in(walk, kToTheEnd);
    unknown.insert(unknown.end(), walk.unknown.begin(), walk.unknown.end());
  }
  return unknown;
}

std::shared_ptr<Survey> survey(const ConvProblem& problem) {
  static Cache& cache = *new Cache;  // never destroyed: convolutions may run while the process ends
  return cache.get(problem);
}

}  // namespace convoy::onednn

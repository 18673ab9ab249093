#include "engines/onednn/survey.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "engines/onednn/implementations.h"
#include "engines/onednn/request.h"

namespace convoy::onednn {
namespace {

constexpr std::size_t kKept = 4096;  // surveys of about a kilobyte

std::size_t row_of(std::string_view description) {
  const std::string name = name_of_implementation(description);
  const auto rows = implementations();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Implementation& i) { return i.name() == name; });
  return static_cast<std::size_t>(found - rows.begin());
}

// What the implementation costs besides computing.
Offer offer_of(const ConvProblem& problem, const dnnl::primitive_desc& description, std::size_t row, Form form) {
  const auto format = [&](int argument) { return description.query_md(dnnl::query::exec_arg_md, argument); };
  const bool fprop = problem.pass == Pass::fprop, dgrad = problem.pass == Pass::dgrad,
             wgrad = problem.pass == Pass::wgrad;
  Offer offer{row, form, 0, false};
  if (format(dgrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC) != as_given(problem.x))
    offer.reordered_bytes += problem.x.bytes();
  if (format(fprop ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST) != as_given(problem.y)) {
    // A residual is reordered like the output.
    offer.reordered_bytes += problem.y.bytes() * (problem.epilogue.gamma != 0 ? 2 : 1);
  } else if (form.residual_by_sum) {
    offer.reordered_bytes += problem.y.bytes();
  }
  offer.reorders_weights = format(wgrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS) != weights_as_given(problem);
  return offer;
}

void add_offers(Survey& survey, const ConvProblem& problem, Form form) {
  dnnl::primitive_desc description = Request(problem, form).first();
  if (!description) return;
  do {
    const std::size_t row = row_of(description.impl_info_str());
    if (row == implementations().size()) {
      survey.unknown.emplace_back(description.impl_info_str());
      continue;
    }
    if (survey.find(row, form.any_layout) != nullptr) continue;  // an earlier form serves
    const Offer offer = offer_of(problem, description, row, form);
    const Offer* given = form.any_layout ? survey.find(row, false) : nullptr;
    if (given == nullptr || given->reordered_bytes != offer.reordered_bytes) survey.offers.push_back(offer);
  } while (description.next_impl());
}

Survey walk(const ConvProblem& problem) {
  Survey survey;
  const OmpThreads threads(1);
  try {
    for (const Form& form : forms_of(problem)) add_offers(survey, problem, form);
  } catch (const dnnl::error& error) {
    return {{}, {}, std::string("nothing: ") + error.message};
  }
  std::vector<bool> named(implementations().size(), false);
  for (const Offer& offer : survey.offers) {
    if (named[offer.row]) continue;
    named[offer.row] = true;
    const std::string name = implementations()[offer.row].name();
    survey.names += (survey.names.empty() ? "" : ", ") + name.substr(name.find('.') + 1);
  }
  if (survey.names.empty()) survey.names = "nothing";
  return survey;
}

class Cache {
 public:
  std::shared_ptr<const Survey> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = surveys_.find(key);
    return found == surveys_.end() ? nullptr : found->second;
  }

  void keep(const std::string& key, std::shared_ptr<const Survey> survey) {
    const std::lock_guard lock(mutex_);
    if (!surveys_.emplace(key, std::move(survey)).second) return;  // another thread was first
    order_.push_back(key);
    if (order_.size() <= kKept) return;
    surveys_.erase(order_.front());
    order_.pop_front();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Survey>> surveys_;
  std::deque<std::string> order_;  // oldest first
};

// The problem, as far as oneDNN's answer depends on it: pointers may be aligned in any way.
ConvProblem without_alignment(ConvProblem problem) {
  for (TensorDesc* desc : {&problem.x, &problem.w, &problem.y}) desc->alignment = 64;
  return problem;
}

}  // namespace

const Offer* Survey::find(std::size_t row, bool any_layout) const {
  const auto found = std::find_if(offers.begin(), offers.end(), [&](const Offer& offer) {
    return offer.row == row && offer.form.any_layout == any_layout;
  });
  return found == offers.end() ? nullptr : &*found;
}

const Offer* Survey::find(std::size_t row) const {
  const Offer* given = find(row, false);
  return given != nullptr ? given : find(row, true);
}

std::shared_ptr<const Survey> survey(const ConvProblem& problem) {
  // Every row asks about the same problem in turn.
  struct Last {
    ConvProblem problem;
    std::shared_ptr<const Survey> survey;
  };
  thread_local Last last;
  if (last.survey && last.problem == problem) return last.survey;

  static Cache cache;
  const std::string key = print(without_alignment(problem));
  std::shared_ptr<const Survey> found = cache.find(key);
  if (!found) {
    found = std::make_shared<const Survey>(walk(problem));
    cache.keep(key, found);
  }
  last = {problem, found};
  return found;
}

}  // namespace convoy::onednn

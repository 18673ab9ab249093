// Which implementations oneDNN offers for a problem, found by walking its primitive descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::onednn {

// The ways to ask for one problem. Implementations may take some and not others.
struct Form {
  bool any_layout = false;       // activations in the format that the implementation prefers, else as given
  bool residual_by_sum = false;  // z is copied to out and scaled and added from there, else it is a binary post-op
  bool bias_after_sum = false;   // the bias is a binary post-op, else it is the convolution's own
  friend bool operator==(const Form&, const Form&) = default;
};

// Those that make a difference for this problem, the preferred first.
std::vector<Form> forms_of(const ConvProblem& problem);

struct SurveyedImplementation {
  std::size_t row;  // in implementations()
  Form form;
  std::int64_t reordered_bytes;  // of activations that are reordered before or after, each counted once
  bool reorders_weights;
};

// What oneDNN offers for one problem. To describe an implementation costs it up to 100 us, so it is asked no further
// than a question needs: up to the row, the first time, and then to the end of its list. For any number of threads.
class Survey {
 public:
  // Precondition: !inexpressible(problem).
  explicit Survey(const ConvProblem& problem);

  // In the layout that the row has by default: as given, where it is offered. Null: not offered. Offers live as long as
  // the survey.
  const SurveyedImplementation* find(std::size_t row);
  // In one layout. The preferred one is not told where it is the given one.
  const SurveyedImplementation* find(std::size_t row, bool any_layout);

  std::vector<SurveyedImplementation> all();  // by layout and oneDNN's preference
  std::vector<std::string> unknown();         // descriptions of implementations without a row

  const ConvProblem& problem() const { return problem_; }

 private:
  struct Walk {
    Form form;
    bool begun = false;
    bool complete = false;
    std::deque<SurveyedImplementation> offers;  // grows only: references stay valid
    std::vector<std::string> unknown;
  };
  static constexpr std::size_t kToTheEnd = ~std::size_t{0};
  // The offer of the row, walking as far as it needs.
  const SurveyedImplementation* find_in(Walk& walk, std::size_t row) const;
  void ask(Walk& walk, std::size_t up_to_row) const;
  const SurveyedImplementation* find_locked(std::size_t row, bool any_layout);

  const ConvProblem problem_;
  std::mutex mutex_;
  std::vector<Walk> walks_;
};

// The survey of the problem (pointers may be aligned in any way), kept for the last few thousand problems of the
// process. Asked for one thread: where oneDNN does not offer an implementation for more, a plan runs it on one and says
// so. After oneDNN has ended, it finds nothing that was not found before.
std::shared_ptr<Survey> survey(const ConvProblem& problem);

}  // namespace convoy::onednn

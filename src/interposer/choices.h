// What `convoy exec` knows and was told of engines before the program starts: the choice file.
//
// The file is text, a line each, fields separated by tabs:
//   convoy-choices 2
//   time    NAME OF THE DEVICE  VERSION OF CUDNN  PROBLEM (math=strict)  CANDIDATE  COST (inf: it failed)  MATH
//           Convoy's own engines have a version of their own, "-"; MATH (left out: strict) is for what cuDNN can't
//           offer
//   rule    PATTERN  CANDIDATE                     in the order of the rules file; docs/selection.md has the patterns
//   filter  engines GLOBS | deterministic | notes GLOBS | workspace BYTES | sm-count N
//   strict                                         what can't be obeyed fails the program's query
//   like-benchmark                                 what cuDNN's notes say a configuration loses is left to the
//   program's
//                                                  own filters, as in benchmark mode
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"
#include "convoy/engine.h"
#include "select/choose/rules.h"

namespace convoy::interposer {

// Whether cuDNN can offer it to a program; all else runs in place of what a program was given (substitution.h).
bool is_offered(const Candidate& candidate);

struct KnownTime {
  Candidate candidate;
  double seconds;                    // infinite: it failed
  MathMode math = MathMode::strict;  // that it was measured with, and has to run with to take so long
};

struct Rule {
  std::string text;  // of the pattern
  selection::RulePattern pattern;
  Candidate candidate;
};

struct Filters {
  std::string engines, notes;  // globs; empty: all
  bool deterministic = false;
  std::int64_t workspace = std::numeric_limits<std::int64_t>::max();  // bytes
  std::optional<std::int32_t> sm_count;
  std::vector<std::string> texts;  // as the file has them: "engines cudnn.*"

  // Whether there is one that looks at configurations.
  bool choose() const;
  // Which of them keeps a configuration from the program; empty: none. "deterministic"
  std::string forbids(const Candidate& candidate, const std::vector<std::string>& all_notes,
                      std::int64_t workspace_bytes) const;
};

class Choices {
 public:
  // Error: the file is not of this format; the message names the line.
  static Result<Choices> parse(std::string_view text);
  // Adds `time` lines, which were measured while the program waited. The others of these functions may be called
  // meanwhile. Error: as of parse().
  Result<void> learn(std::string_view lines);

  // What was measured of a problem on a device by a version of cuDNN ("9.19.0"), each candidate once: of the engines
  // that cuDNN can offer a program. A time that was measured with tensors of a lower alignment serves where there is
  // none of the problem's own; that a candidate failed with them says nothing.
  std::vector<KnownTime> find(std::string_view device, std::string_view cudnn, std::string_view problem) const;
  // The same of all other engines.
  std::vector<KnownTime> substitutes(std::string_view device, std::string_view cudnn, std::string_view problem) const;
  bool empty() const { return tuner.empty() && times_.empty() && rules.empty() && filters.texts.empty(); }

  void lock() { times_mutex_->lock(); }  // around fork()
  void unlock() { times_mutex_->unlock(); }

  std::vector<Rule> rules;
  Filters filters;
  bool strict = false;
  bool like_benchmark = false;
  std::string tuner;                 // the socket of who measures while the program waits; empty: nobody
  std::vector<std::string> remarks;  // lines that are written otherwise today: "line 3: .. is written .. now"

 private:
  using Alignments = std::array<std::int64_t, 3>;  // of x, w and y
  struct AlignedTime {
    Alignments alignments;
    KnownTime known;
  };
  void collect(const std::string& key, const Alignments& callers, std::vector<KnownTime>& known) const;
  static std::string without_alignments(std::string_view problem, Alignments& alignments);

  Result<void> read_time(std::string_view fields, int line);

  std::unique_ptr<std::mutex> times_mutex_ = std::make_unique<std::mutex>();
  std::map<std::string, std::vector<AlignedTime>, std::less<>> times_;
};

}  // namespace convoy::interposer

// What `convoy exec` knows of engines before the program starts: the choice file, and the order that it gives to what
// cuDNN's heuristics offer.
//
// The file is text, a line each, fields separated by tabs:
//   convoy-choices 1
//   time  NAME OF THE DEVICE  VERSION OF CUDNN  PROBLEM (math=strict)  CANDIDATE  SECONDS (inf: it failed)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/engine.h"

namespace convoy::interposer {

struct KnownTime {
  Candidate candidate;
  double seconds;
};

class Choices {
 public:
  // Error: the file is not of this format; the message names the line.
  static Result<Choices> parse(std::string_view text);

  // What was measured of a problem on a device by a version of cuDNN ("9.19.0"); null: nothing.
  const std::vector<KnownTime>* find(std::string_view device, std::string_view cudnn, std::string_view problem) const;
  bool empty() const { return times_.empty(); }

 private:
  std::map<std::string, std::vector<KnownTime>, std::less<>> times_;
};

// An offered configuration as the order sees it.
struct Contender {
  std::vector<std::string> notes;  // cuDNN's, and those that known.cc adds
  std::optional<double> seconds;   // where it was measured; infinite: it failed then
};

// The order in which to offer: indices into `offered`. A faster one goes before a slower one, but not before one that
// was not measured, nor before one that is more precise or more deterministic. So whatever notes the caller filters by,
// the first one that is left to it was measured to be as fast as the first one of cuDNN's own order, or is that one,
// and has no note that that one has not.
std::vector<int> order_by_time(const std::vector<Contender>& offered);

}  // namespace convoy::interposer

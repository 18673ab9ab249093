// Statistics of timing samples. No clock and no policy: a list of numbers in, a summary out.
#pragma once

#include <span>

#include "select/evidence.h"

namespace convoy::selection {

struct Summary {
  double median = 0;
  double first_quartile = 0;
  double third_quartile = 0;
  int samples = 0;   // that count
  int outliers = 0;  // that were left out

  // Interquartile range over the median. 0 for fewer than 2 samples.
  double spread() const { return median > 0 ? (third_quartile - first_quartile) / median : 0; }

  // Half-width of a 95% confidence interval of the median, relative to it (select/evidence.h).
  double relative_uncertainty() const { return selection::relative_uncertainty(spread(), samples); }

  // Below `limit` beyond doubt: the whole interval is.
  bool is_below(double limit) const { return samples > 0 && median * (1 + relative_uncertainty()) < limit; }
};

// Of samples in rising order, at least one; `q` from 0 to 1; by linear interpolation between order statistics (R's type
// 7).
double quantile(std::span<const double> sorted, double q);

// The rule for outliers: a sample above Q3 + 3*IQR (Tukey's "far out", Exploratory Data Analysis, 1977) was disturbed
// by something else on the machine and doesn't count. Low ones do: nothing makes a run faster than it can be. Quartiles
// by linear interpolation between order statistics (R's type 7). An empty list gives zeros.
Summary summarize(std::span<const double> samples);

}  // namespace convoy::selection

// Quantities as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "convoy/convolution.h"

namespace convoy::report {

std::string seconds(double value);                            // "12.3 us", "4.56 ms", "1.23 s"; three digits
std::string bytes(double value);                              // "512 B", "1.50 KiB", "12.3 MiB"
std::string thousands(std::int64_t value);                    // "15,523,464"
std::string percent(double fraction);                         // "3.1%"
std::string rate(double per_second);                          // in units of 10^9, three digits: "123", "4.56"
std::string number(double value);                             // three digits: "0.0123", "4.5e-07"
std::string per_second(double value, std::string_view what);  // "1,234 images a second", "0.25 images a second"

// What a person looks for in a problem: "3x3 64->64 56x56", with "/2" for a stride, "g32" for groups, "d2" for
// dilation, the data types where they are not f32, and the layout. Not parseable; the problem string is.
std::string short_name(const ConvProblem& problem);

}  // namespace convoy::report

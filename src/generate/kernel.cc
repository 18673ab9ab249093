#include "generate/kernel.h"

#include <fmt/format.h>

#include <limits>

#include "generate/writer.h"

namespace convoy::generate {

Result<Kernel> write_kernel(const Computation& computation, const std::string& name, int most_shares) {
  CONVOY_TRY(const Lowered space, lower(computation));
  if (position_count(space.kept) == 0) return Kernel{.name = name};
  const Schedule schedule = schedule_of(computation, space, most_shares);
  if (schedule.blocks > std::numeric_limits<std::int32_t>::max()) {
    return Error{ErrorCode::unsupported,
                 fmt::format("{} blocks of threads: more than a launch may have", schedule.blocks)};
  }
  return Writer(computation, space, schedule, name).write();
}

}  // namespace convoy::generate

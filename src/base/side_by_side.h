// Work of a few long parts on the processor's threads: for what takes seconds, as compilers do, not for kernels.
#pragma once

#include <cstddef>
#include <functional>

namespace convoy {

// work(i) for each i below `count`, on as many threads as processors that this process may run on, the caller's among
// them; on fewer where no more can be had. The first exception of any of them is thrown again here, when all have
// ended.
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace convoy

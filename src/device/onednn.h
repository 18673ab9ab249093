// What everything that runs oneDNN primitives shares. oneDNN throws; nothing that includes this header has to know. Its
// primitives are the OpenMP build's: they are created for and run on exactly the threads of the plan, whatever OpenMP's
// own default is.
#pragma once

#include <omp.h>

#include <cstdint>
#include <optional>

#include "convoy/data_type.h"
#include "device/onednn_api.h"

namespace convoy::onednn {

const dnnl::engine& cpu_engine();

// oneDNN's type, or nothing where it has none (f64, the wide and unsigned integers, f8).
std::optional<dnnl::memory::data_type> data_type_of(DataType type);

// oneDNN makes statics where it first needs them and has them destroyed when the process exits, the latest first. So
// convolutions in atexit handlers and static destructors may come too late for it: every new use is followed by
// used(), which has ended() say so before any static that the use may have made is destroyed.
bool ended();
// `kind` tells uses apart that may make different statics; each kind costs one atexit entry for the process.
void used(std::uint64_t kind);

// OpenMP's thread count for regions that the calling thread opens, for the life of the object.
class OmpThreads {
 public:
  explicit OmpThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~OmpThreads() { omp_set_num_threads(before_); }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int before_;
};

}  // namespace convoy::onednn

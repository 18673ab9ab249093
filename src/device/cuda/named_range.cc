#include "device/cuda/named_range.h"

#include <nvtx3/nvToolsExt.h>

namespace convoy::cuda {
namespace {

// Null without a profiler: NVTX's functions do nothing then.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("Convoy");
  return made;
}

}  // namespace

bool NamedRange::is_profiled() { return domain() != nullptr; }

void NamedRange::push(const std::string& name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  nvtxDomainRangePushEx(domain(), &attributes);
}

void NamedRange::pop() { nvtxDomainRangePop(domain()); }

}  // namespace convoy::cuda

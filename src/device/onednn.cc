#include "device/onednn.h"

namespace convoy::onednn {

const dnnl::engine& cpu_engine() {
  // Never destroyed: convolutions may run while the process ends.
  static const auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::optional<dnnl::memory::data_type> data_type_of(DataType type) {
  using Type = dnnl::memory::data_type;
  switch (type) {
    case DataType::f32:
      return Type::f32;
    case DataType::f16:
      return Type::f16;
    case DataType::bf16:
      return Type::bf16;
    case DataType::s32:
      return Type::s32;
    case DataType::s8:
      return Type::s8;
    case DataType::u8:
      return Type::u8;
    default:
      return std::nullopt;
  }
}

}  // namespace convoy::onednn

// The one ordered table of engines: a row an engine. Ties in a ranking are broken by this order.
#include "engines/table.h"

#include "convoy/engine.h"
#include "engines/cpu/bf16/bf16.h"
#include "engines/cpu/depthwise/depthwise.h"
#include "engines/cpu/direct/direct.h"
#include "engines/cpu/gemm/gemm.h"
#include "engines/cpu/inner_product/inner_product.h"
#include "engines/cpu/int8/int8.h"
#include "engines/cpu/wgrad/wgrad.h"
#include "engines/cpu/winograd/winograd.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/direct/direct.h"
#include "engines/cuda/gemm/gemm.h"
#include "engines/cuda/gemv/gemv.h"
#include "engines/cuda/igemm/igemm.h"
#include "engines/cuda/integer/integer.h"
#include "engines/cuda/pointwise/pointwise.h"
#include "engines/cuda/reference/reference.h"
#include "engines/cuda/stem/stem.h"
#include "engines/cuda/volume/volume.h"
#include "engines/cudnn/cudnn.h"
#include "engines/on_copies/on_copies.h"
#include "engines/onednn/onednn.h"
#include "engines/reference/reference.h"

namespace convoy {

const std::vector<const Engine*>& all_engines() {
  // Never destroyed: convolutions may run while the process ends.
  static const auto& engines = *[] {
    const std::vector<const Engine*> own{
        &cpu::direct_engine(), &cpu::gemm_engine(),    &cpu::depthwise_engine(), &cpu::winograd_engine(),
        &cpu::wgrad_engine(),  &cpu::int8_engine(),    &cpu::int8_amx_engine(),  &cpu::inner_product_engine(),
        &cpu::bf16_engine(),   &cpu::bf16_amx_engine()};
    auto* all = new std::vector<const Engine*>(own);
    all->push_back(&cuda::depthwise_engine());
    all->push_back(&cuda::direct_engine());
    all->push_back(&cuda::gemm_engine());
    all->push_back(&cuda::gemv_engine());
    all->push_back(&cuda::igemm_engine());
    all->push_back(&cuda::pointwise_engine());
    all->push_back(&cuda::stem_engine());
    all->push_back(&cuda::volume_engine());
    all->push_back(&cuda::integer_engine());
    for (const auto provided : {onednn::engines(), cudnn::engines()}) {
      all->insert(all->end(), provided.begin(), provided.end());
    }
    all->push_back(make_in_f32_engine("cpu.in_f32", own).release());
    all->push_back(make_nhwc_engine("cpu.nhwc", own).release());
    all->push_back(make_in_f32_engine("onednn.in_f32", onednn::engines()).release());
    all->push_back(&empty_engine());
    all->push_back(&reference_engine());
    all->push_back(&cuda::reference_engine());
    return all;
  }();
  return engines;
}

const std::vector<const Engine*>& engines_on(DeviceKind kind) {
  const auto rows_on = [](DeviceKind wanted) {
    auto* rows = new std::vector<const Engine*>;
    for (const Engine* engine : all_engines()) {
      if (engine->info().device == wanted) rows->push_back(engine);
    }
    return rows;
  };
  static const auto& cpu = *rows_on(DeviceKind::cpu);
  static const auto& cuda = *rows_on(DeviceKind::cuda);
  return kind == DeviceKind::cpu ? cpu : cuda;
}

}  // namespace convoy

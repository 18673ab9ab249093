// Conversions of activations: another layout, another data type, or both, in parallel.
//
// Vectorised and threaded (bench/conversions.py says how near a copy) for tensors of 3 dims or more whose layouts are
// packed nchw, nhwc, nchw8c or nchw16c, of one type; with f32 <-> bf16 and f32 <-> f16 in the same
// pass. All else goes through copy_tensor, whose bits all of it has.
#pragma once

#include <string_view>

#include "convoy/cpu.h"
#include "convoy/tensor.h"
#include "convoy/thread_team.h"

namespace convoy {

// How a conversion is done, which is what decides how near it comes to a copy.
enum class ConversionKind : std::uint8_t {
  copy,       // one type and one placement without padding: a parallel memcpy
  types,      // one placement without padding, f32 <-> bf16, f16
  to_inner,   // channels apart (nchw) to channels side by side (nhwc, nchw8c, nchw16c)
  to_outer,   // the reverse
  regroup,    // channels side by side in both: nhwc <-> nchw8c <-> nchw16c
  elsewhere,  // copy_tensor, on one thread
};
std::string_view name_of(ConversionKind kind);
// Of two descriptions with the same dims.
ConversionKind conversion_kind(const TensorDesc& src, const TensorDesc& dst);

// Same dims. src and dst must not overlap. Channels that fill no whole block are padded with zeros. The second form
// uses the instruction sets of `cpu` only.
void convert_layout(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data,
                    ThreadTeam& team);
void convert_layout(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data,
                    ThreadTeam& team, const CpuFeatures& cpu);

// Whether two descriptions of one tensor say the same of its bytes (nchw and nhwc do where C = 1, or without spatial
// extent). Same dims.
bool same_bytes(const TensorDesc& a, const TensorDesc& b);

}  // namespace convoy

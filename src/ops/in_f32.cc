#include "ops/in_f32.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "convoy/host_tensor.h"
#include "core/shared_bytes.h"
#include "ops/rows.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

constexpr std::size_t kMostTensors = 8;  // of the operators that are planned so

// A tensor of halves, and where it is as f32: in the workspace, or made when planned.
struct Wide {
  std::size_t index = 0;  // of the input or output
  DataType type = DataType::f16;
  std::int64_t elements = 0;
  std::size_t offset = 0;
  std::shared_ptr<const std::byte> constant;
};

std::int64_t elements_in_memory(const TensorDesc& desc) {
  return static_cast<std::int64_t>(desc.bytes() / size_of(desc.type));
}

void widen(const Wide& wide, bool vectors, const void* from, float* to, std::int64_t begin, std::int64_t end) {
  dispatch<kHalves>(wide.type, [&]<class T>(Tag<T>) {
    for (std::int64_t i = begin; i < end; i += kRowChunk) {
      load_row(vectors, static_cast<const T*>(from) + i, 1, std::min(kRowChunk, end - i), to + i);
    }
  });
}

class PlanInF32 final : public OpPlan {
 public:
  PlanInF32(std::unique_ptr<OpPlan> inner, std::vector<Wide> inputs, std::vector<Wide> outputs, std::size_t bytes,
            bool vectors)
      : inner_(std::move(inner)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        bytes_(bytes),
        vectors_(vectors) {}

  Candidate candidate() const override { return inner_->candidate(); }
  std::size_t workspace_bytes() const override { return bytes_ + inner_->workspace_bytes(); }
  std::size_t retained_bytes() const override {
    std::size_t bytes = inner_->retained_bytes();
    for (const Wide& wide : inputs_) bytes += wide.constant != nullptr ? wide.elements * sizeof(float) : 0;
    return bytes;
  }

  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    auto* workspace = static_cast<std::byte*>(context.workspace);
    std::array<const void*, kMostTensors> in;
    std::array<void*, kMostTensors> out;
    std::copy(inputs.begin(), inputs.end(), in.begin());
    std::copy(outputs.begin(), outputs.end(), out.begin());
    for (const Wide& wide : inputs_) {
      if (wide.constant != nullptr) {
        in[wide.index] = wide.constant.get();
        continue;
      }
      auto* to = reinterpret_cast<float*>(workspace + wide.offset);
      parallel_for(context, wide.elements, 1, [&](std::int64_t begin, std::int64_t end) {
        widen(wide, vectors_, inputs[wide.index], to, begin, end);
      });
      in[wide.index] = to;
    }
    for (const Wide& wide : outputs_) {
      if (out[wide.index] != nullptr) out[wide.index] = workspace + wide.offset;
    }
    const ExecContext own{context.queue, workspace + bytes_, inner_->workspace_bytes()};
    CONVOY_CHECK(inner_->execute({in.data(), inputs.size()}, {out.data(), outputs.size()}, own));
    for (const Wide& wide : outputs_) {
      if (outputs[wide.index] == nullptr) continue;
      const auto* from = reinterpret_cast<const float*>(workspace + wide.offset);
      parallel_for(context, wide.elements, 1, [&](std::int64_t begin, std::int64_t end) {
        dispatch<kHalves>(wide.type, [&]<class T>(Tag<T>) {
          store_row(vectors_, from + begin, end - begin, static_cast<T*>(outputs[wide.index]) + begin, 1);
        });
      });
    }
    return {};
  }

 private:
  std::unique_ptr<OpPlan> inner_;
  std::vector<Wide> inputs_, outputs_;
  std::size_t bytes_;  // of the widened tensors
  bool vectors_;
};

}  // namespace

Result<std::unique_ptr<OpPlan>> plan_in_f32(const Operator& op, const NodeDesc& node, std::span<const Input> inputs,
                                            std::span<const TensorDesc> outputs, const PlanRequest& request) {
  if (std::max(inputs.size(), outputs.size()) > kMostTensors) {
    return Error{ErrorCode::unsupported, fmt::format("{}: more than {} inputs or outputs", node.op, kMostTensors)};
  }
  const bool vectors = has_row_vectors(request);
  std::vector<Input> wide_inputs(inputs.begin(), inputs.end());
  std::vector<TensorDesc> wide_outputs(outputs.begin(), outputs.end());
  std::vector<Wide> in, out;
  std::size_t bytes = 0;
  const auto make_wide = [&](TensorDesc& desc, std::size_t index, bool in_workspace) {
    Wide wide{index, desc.type, elements_in_memory(desc), bytes, nullptr};
    desc.type = DataType::f32;
    if (in_workspace) bytes += (static_cast<std::size_t>(wide.elements) * sizeof(float) + 63) / 64 * 64;
    return wide;
  };
  for (std::size_t i = 0; i < wide_inputs.size(); ++i) {
    Input& input = wide_inputs[i];
    if (!input.present || !contains(kHalves, input.desc.type)) continue;
    Wide wide = make_wide(input.desc, i, input.constant == nullptr);
    if (input.constant != nullptr) {
      const std::size_t size = std::max<std::size_t>(wide.elements * sizeof(float), 64);
      std::shared_ptr<std::byte> widened = allocate_aligned(size);
      if (widened == nullptr) {
        return Error{ErrorCode::out_of_memory,
                     fmt::format("{}: no memory for input {} as f32 ({} bytes)", node.op, i, size)};
      }
      std::memset(widened.get(), 0, 64);  // of a few elements the rest
      widen(wide, vectors, input.constant, reinterpret_cast<float*>(widened.get()), 0, wide.elements);
      wide.constant = shared_bytes(std::move(widened), size);
      input.constant = wide.constant.get();
    }
    in.push_back(std::move(wide));
  }
  for (std::size_t i = 0; i < wide_outputs.size(); ++i) {
    if (contains(kHalves, wide_outputs[i].type)) out.push_back(make_wide(wide_outputs[i], i, true));
  }
  CONVOY_TRY(std::unique_ptr<OpPlan> inner, op.plan(node, wide_inputs, wide_outputs, request));
  return std::unique_ptr<OpPlan>(
      std::make_unique<PlanInF32>(std::move(inner), std::move(in), std::move(out), bytes, vectors));
}

}  // namespace convoy::ops

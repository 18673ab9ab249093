#include "cli/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "cli/tuning.h"

namespace convoy::cli {
namespace {

// `parts` of the same sizes and a batch of 1, one after another.
Result<HostTensor> stacked(const std::vector<const HostTensor*>& parts) {
  Dims dims = parts[0]->desc.dims;
  dims[0] = static_cast<std::int64_t>(parts.size());
  CONVOY_TRY(HostTensor all, HostTensor::allocate(TensorDesc::packed(parts[0]->desc.type, dims)));
  const auto bytes = static_cast<std::size_t>(parts[0]->desc.bytes());
  for (std::size_t i = 0; i < parts.size(); ++i) std::memcpy(all.data.get() + i * bytes, parts[i]->data.get(), bytes);
  return all;
}

Result<HostTensor> item_of(const HostTensor& all, std::size_t item) {
  Dims dims = all.desc.dims;
  dims[0] = 1;
  CONVOY_TRY(HostTensor one, HostTensor::allocate(TensorDesc::packed(all.desc.type, dims)));
  const auto bytes = static_cast<std::size_t>(one.desc.bytes());
  std::memcpy(one.data.get(), all.data.get() + item * bytes, bytes);
  return one;
}

// Items that a sample brings along.
std::int64_t items_of(const Network& network, const Sample& sample) {
  std::int64_t items = 1;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    if (!has_batch(network.inputs()[i])) continue;
    const std::int64_t own = sample.inputs[i].tensor.desc.dims[0];
    if (own == 0) return 0;
    items = std::max(items, own);
  }
  return items;
}

}  // namespace

std::vector<TensorDesc> Batch::descs() const {
  std::vector<TensorDesc> descs;
  for (const HostTensor& tensor : tensors) descs.push_back(tensor.desc);
  return descs;
}

std::size_t samples_a_run(const Network& network, const Sample& first, std::int64_t batch) {
  return items_of(network, first) != 1 ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(batch, 1));
}

Result<Batch> assemble(const Network& network, std::vector<Sample> samples, std::int64_t batch) {
  Batch result;
  result.samples = std::move(samples);
  const Sample& first = result.samples[0];
  const std::int64_t own = items_of(network, first);
  result.items = own != 1 ? own : std::max<std::int64_t>(batch, 1);
  const auto wanted = static_cast<std::size_t>(own != 1 ? 1 : result.items);
  result.repeats = static_cast<int>(wanted - std::min(wanted, result.samples.size()));
  for (std::size_t i = 0; i < first.inputs.size(); ++i) {
    const HostTensor& tensor = first.inputs[i].tensor;
    if (wanted == 1 || !has_batch(network.inputs()[i])) {
      result.tensors.push_back(tensor);
      continue;
    }
    std::vector<const HostTensor*> parts;
    for (std::size_t k = 0; k < wanted; ++k) {
      const PreparedInput& input = result.samples[std::min(k, result.samples.size() - 1)].inputs[i];
      if (input.tensor.desc.dims != tensor.desc.dims) {
        return Error{
            ErrorCode::invalid_argument,
            fmt::format("--batch: {} is {}, {} is {}: a batch has one size (--dim gives it)", first.inputs[i].source,
                        to_string(tensor.desc.dims), input.source, to_string(input.tensor.desc.dims))};
      }
      parts.push_back(&input.tensor);
    }
    CONVOY_TRY(HostTensor all, stacked(parts));
    result.tensors.push_back(std::move(all));
  }
  return result;
}

Result<std::vector<HostTensor>> outputs_of(const Network& network, const Batch& batch, std::size_t sample,
                                           const std::vector<HostTensor>& outputs) {
  if (batch.samples.size() == 1 && batch.repeats == 0) return outputs;
  std::vector<HostTensor> parts;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Dims& dims = outputs[i].desc.dims;
    if (dims.empty() || dims[0] != batch.items) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("--batch: output '{}' is {}, not one part for each of {} inputs: run them one by one",
                               network.outputs()[i].name, to_string(dims), batch.items)};
    }
    CONVOY_TRY(HostTensor part, item_of(outputs[i], sample));
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<Runner::Run> Runner::run(std::span<const HostTensor> tensors) {
  std::vector<TensorDesc> descs;
  for (const HostTensor& tensor : tensors) descs.push_back(tensor.desc);
  Run result;
  if (session_ == nullptr || descs != descs_) {
    session_.reset();  // its memory, before the next one's
    const double start = monotonic_seconds();
    CONVOY_TRY(session_, prepare_with_progress(program_, network_, descs, options_));
    prepare_seconds_ += monotonic_seconds() - start;
    ++prepared_;
    descs_ = std::move(descs);
    result.fresh = true;
    say_warnings(program_, *session_);
  }
  CONVOY_TRY(result.outputs, session_->run(tensors, &result.statistics));
  return result;
}

}  // namespace convoy::cli

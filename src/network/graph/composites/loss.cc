// Losses of classifiers, as networks that were exported for training have them at their end.
#include <algorithm>
#include <array>
#include <optional>

#include "network/graph/composite.h"

namespace convoy::network {
namespace {

enum LossInput { kScores, kTarget, kWeight };

// What an element counts for: its class's weight, 0 where its target is to be ignored. Nothing: all count alike.
Result<std::optional<int>> weight_of(Expansion& e, int target, std::optional<int> ignored) {
  const DataType type = e.type(e.input(kScores));
  std::optional<int> weight;
  if (e.has(kWeight)) {
    CONVOY_TRY(weight, e.add("Gather", {e.input(kWeight), target}));
  } else if (ignored) {
    CONVOY_TRY(weight, e.scalar(type, 1));
  }
  if (!weight || !ignored) return weight;
  CONVOY_TRY(const int none, e.scalar(type, 0));
  CONVOY_TRY(const int counted, e.add("Where", {*ignored, none, *weight}));
  return std::optional(counted);
}

// -log_probabilities[n, target[n, d...], d...], weighted and reduced.
Result<void> give_loss(Expansion& e, int log_probabilities) {
  const Dims dims = e.dims(log_probabilities);
  if (dims.size() < 2) return e.bad("input 0 has the rank " + std::to_string(dims.size()) + ", it needs N and C");
  Dims target_dims = dims;
  target_dims.erase(target_dims.begin() + 1);
  CONVOY_CHECK(e.check_dims(kTarget, "the target", target_dims));
  if (e.has(kWeight)) CONVOY_CHECK(e.check_dims(kWeight, "the weight", {dims[1]}));
  CONVOY_TRY(const std::string reduction, e.node().text("reduction", "mean"));
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return e.bad("reduction='" + reduction + "' is not none, sum or mean");
  }

  int target = e.input(kTarget);
  std::optional<int> ignored;
  if (e.node().has("ignore_index")) {
    CONVOY_TRY(const std::int64_t index, e.node().integer("ignore_index", 0));
    CONVOY_TRY(const int value, e.scalar(e.type(target), static_cast<double>(index)));
    CONVOY_TRY(ignored, e.add("Equal", {target, value}));
    CONVOY_TRY(const int some_class, e.scalar(e.type(target), 0));
    CONVOY_TRY(target, e.add("Where", {*ignored, some_class, target}));
  }
  Dims column = dims;
  column[1] = 1;
  CONVOY_TRY(const int index, e.reshape(target, column));
  CONVOY_TRY(int loss, e.add("GatherElements", {log_probabilities, index}, {{"axis", std::int64_t{1}}}));
  CONVOY_TRY(loss, e.reshape(loss, target_dims));
  CONVOY_TRY(loss, e.add("Neg", {loss}));
  CONVOY_TRY(const std::optional<int> weight, weight_of(e, target, ignored));
  if (weight) {
    CONVOY_TRY(loss, e.add("Mul", {loss, *weight}));
  }
  if (ignored) {  // 0 where the loss is infinite, too
    CONVOY_TRY(const int none, e.scalar(e.type(loss), 0));
    CONVOY_TRY(loss, e.add("Where", {*ignored, none, loss}));
  }
  const Expansion::Attributes to_one{{"keepdims", std::int64_t{0}}};
  if (reduction == "mean" && !weight) {
    CONVOY_TRY(loss, e.add("ReduceMean", {loss}, to_one));
  } else if (reduction != "none") {
    CONVOY_TRY(loss, e.add("ReduceSum", {loss}, to_one));
  }
  if (reduction == "mean" && weight) {
    CONVOY_TRY(const int all, e.add("ReduceSum", {*weight}, to_one));
    CONVOY_TRY(loss, e.add("Div", {loss, all}));
  }
  e.give(0, loss);
  return {};
}

Result<void> negative_log_likelihood_loss(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 3));
  return give_loss(e, e.input(kScores));
}

Result<void> softmax_cross_entropy_loss(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 3));
  CONVOY_TRY(const int log_probabilities, e.add("LogSoftmax", {e.input(kScores)}, {{"axis", std::int64_t{1}}}));
  if (e.wants(1)) e.give(1, log_probabilities);
  return give_loss(e, log_probabilities);
}

constexpr std::array kLossComposites{
    Composite{"NegativeLogLikelihoodLoss", negative_log_likelihood_loss, ""},
    Composite{"SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss, ""},
};

}  // namespace

std::span<const Composite> loss_composites() { return kLossComposites; }

}  // namespace convoy::network

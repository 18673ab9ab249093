// What outputs are taken for, and what is made of them.
#include "cli/outputs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/output_comparison.h"
#include "cli/run_timing.h"

namespace convoy::cli {
namespace {

using io::ChannelsAt;

HostTensor tensor_of(Dims dims, const std::vector<double>& values, DataType type = DataType::f32) {
  HostTensor tensor = *HostTensor::zeros(TensorDesc::packed(type, std::move(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_from_double(type, tensor.data.get(), static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

InputForm input(Dims dims, ChannelsAt at = ChannelsAt::automatic) {
  const TensorDesc desc = TensorDesc::packed(DataType::f32, std::move(dims));
  return form_of_inputs(std::span(&desc, 1), at);
}

OutputForm output(Dims dims, const InputForm& of, ChannelsAt at = ChannelsAt::automatic) {
  return form_of_output(dims, of, at);
}

TEST(OutputForm, ListsOfClasses) {
  const InputForm picture = input({1, 3, 224, 224});
  for (const Dims& dims : {Dims{1, 1000}, Dims{1000}, Dims{1, 1000, 1, 1}, Dims{1, 1, 1, 1000}, Dims{1, 1, 1000}}) {
    const OutputForm form = output(dims, picture);
    EXPECT_EQ(form.kind, OutputKind::classes) << to_string(dims);
    EXPECT_EQ(form.classes, 1000);
    EXPECT_EQ(form.items, 1);
  }
  EXPECT_EQ(output({8, 10}, input({8, 3, 32, 32})).items, 8);
  // Boxes, rows that are no batch, a single value.
  for (const Dims& dims : {Dims{1, 4420, 2}, Dims{4420, 2}, Dims{1, 1}, Dims{1, 1, 1, 1}, Dims{}, Dims{1, 0}}) {
    EXPECT_EQ(output(dims, picture).kind, OutputKind::other) << to_string(dims);
  }
  EXPECT_EQ(output({4, 10}, input({8, 3, 32, 32})).kind, OutputKind::other);
}

TEST(OutputForm, MapsFollowTheInputsProportions) {
  struct Case {
    Dims input, output;
    io::PixelMap map;
    bool full_size;
  };
  const Case cases[] = {
      {{1, 144, 256, 3}, {1, 144, 256, 1}, {1, 1, {144, 256}, true}, true},         // selfie-segmentation
      {{1, 3, 352, 352}, {1, 85, 22, 22}, {1, 85, {22, 22}, false}, false},         // fastestdet
      {{1, 3, 156, 156}, {1, 3, 284, 284}, {1, 3, {284, 284}, false}, true},        // waifu2x
      {{1, 1, 48, 48, 48}, {1, 3, 48, 48, 48}, {1, 3, {48, 48, 48}, false}, true},  // meshnet
      {{2, 3, 60, 80}, {2, 60, 80}, {2, 1, {60, 80}, false}, true},                 // labels without channels
      {{1, 3, 20, 22}, {1, 21, 20, 22}, {1, 21, {20, 22}, false}, true},            // both readings near: the better
      {{1, 16, 16, 3}, {1, 16, 16, 16}, {1, 16, {16, 16}, true}, true},             // both the same: the input's
      {{1, 3, 16, 16}, {1, 16, 16, 16}, {1, 16, {16, 16}, false}, true},
      {{1, 100}, {1, 3, 64, 64}, {1, 3, {64, 64}, false}, true},  // a generator
      {{1, 100}, {1, 64, 64, 3}, {1, 3, {64, 64}, true}, true},
  };
  for (const Case& c : cases) {
    const OutputForm form = output(c.output, input(c.input));
    ASSERT_EQ(form.kind, OutputKind::map) << to_string(c.output);
    EXPECT_EQ(form.map, c.map) << to_string(c.output);
    EXPECT_EQ(form.full_size, c.full_size) << to_string(c.output);
  }
  EXPECT_EQ(output({1, 5, 17, 40}, input({1, 3, 64, 64})).kind, OutputKind::other);
  EXPECT_EQ(output({1, 3, 80, 80, 85}, input({1, 3, 640, 640})).kind, OutputKind::other);
  EXPECT_TRUE(output({1, 16, 16, 16}, input({1, 3, 16, 16}), ChannelsAt::last).map.channels_last);
}

TEST(RankClasses, SoftmaxOnlyWhereNeeded) {
  const auto probable = rank_classes(tensor_of({1, 3}, {0.2, 0.7, 0.1}), 1, 2, {"a", "b", "c"});
  ASSERT_TRUE(probable.ok());
  EXPECT_FALSE((*probable)[0].softmax);
  EXPECT_EQ((*probable)[0].classes[0].label, "b");
  EXPECT_NEAR((*probable)[0].classes[0].probability, 0.7, 1e-6);
  const auto logits = rank_classes(tensor_of({2, 2}, {1, 3, 1000, 0}), 2, 1, {});
  ASSERT_TRUE(logits.ok());
  EXPECT_TRUE((*logits)[0].softmax);
  EXPECT_NEAR((*logits)[0].classes[0].probability, 1 / (1 + std::exp(-2)), 1e-6);
  EXPECT_EQ((*logits)[1].classes[0].index, 0);
  EXPECT_NEAR((*logits)[1].classes[0].probability, 1, 1e-6);
}

void expect_labels(const Result<LabelMap>& labels, const std::vector<int>& expected,
                   const std::vector<std::int64_t>& counts, const std::string& rule) {
  ASSERT_TRUE(labels.ok()) << labels.error().message;
  ASSERT_EQ(labels->tensor.desc.elements(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(labels->tensor.at(static_cast<std::int64_t>(i)), expected[i]) << i;
  }
  EXPECT_EQ(labels->counts, counts);
  EXPECT_EQ(labels->rule, rule);
}

TEST(LabelMap, LowestOfEqualsInBothLayouts) {
  const HostTensor first = tensor_of({1, 3, 2, 2}, {1, 5, 0, 2, 1, 4, 3, 2, 0, 6, 1, 2});
  expect_labels(label_map(first, {1, 3, {2, 2}, false}), {0, 2, 1, 0}, {2, 1, 1}, "the largest of 3 channels");
  const HostTensor last = tensor_of({1, 2, 2, 3}, {1, 1, 0, 5, 4, 6, 0, 3, 1, 2, 2, 2});
  expect_labels(label_map(last, {1, 3, {2, 2}, true}), {0, 2, 1, 0}, {2, 1, 1}, "the largest of 3 channels");
  EXPECT_EQ(label_map(last, {1, 3, {2, 2}, true})->tensor.desc.dims, (Dims{1, 2, 2}));
  EXPECT_FALSE(label_map(last, {1, 3, {2, 2}, true}, 0.5).ok());
}

TEST(LabelMap, AMaskHasAThreshold) {
  const io::PixelMap map{1, 1, {2, 2}, true};
  expect_labels(label_map(tensor_of({1, 2, 2, 1}, {0, 0.4, 0.6, 1}), map), {0, 0, 1, 1}, {2, 2},
                "one channel: label 1 where it is over 0.5 (--threshold)");
  expect_labels(label_map(tensor_of({1, 2, 2, 1}, {-3, 0.4, 0.6, 9}), map), {0, 1, 1, 1}, {1, 3},
                "one channel: label 1 where it is over 0 (--threshold)");
  expect_labels(label_map(tensor_of({1, 2, 2, 1}, {0, 0.4, 0.6, 1}), map, 0.7), {0, 0, 0, 1}, {3, 1},
                "one channel: label 1 where it is over 0.7");
  expect_labels(label_map(tensor_of({1, 2, 2, 1}, {0, 3, 3, 1}, DataType::s64), map), {0, 3, 3, 1}, {1, 1, 0, 2},
                "labels as the model gives them");
  EXPECT_FALSE(label_map(tensor_of({1, 2, 2, 1}, {0, -3, 3, 1}, DataType::s64), map).ok());
}

TEST(OutputPictures, SegmentationsArePicturesOfLabels) {
  const InputForm picture = input({1, 3, 8, 8});
  const auto is = [&](Dims dims, DataType type = DataType::f32) {
    const HostTensor tensor = *HostTensor::zeros(TensorDesc::packed(type, dims));
    return is_segmentation(tensor, output(dims, picture));
  };
  EXPECT_TRUE(is({1, 21, 8, 8}));
  EXPECT_FALSE(is({1, 3, 8, 8}));
  EXPECT_FALSE(is({1, 1, 8, 8}));
  EXPECT_FALSE(is({1, 21, 2, 2}));  // a detector's grid, more likely
  EXPECT_TRUE(is({1, 8, 8}, DataType::s64));
  EXPECT_FALSE(is({1, 8, 8}, DataType::u8));
  std::vector<double> probabilities(3 * 64, 1.0 / 3);
  EXPECT_TRUE(is_segmentation(tensor_of({1, 3, 8, 8}, probabilities), output({1, 3, 8, 8}, picture)));
}

TEST(OutputDifference, SaysHowFarAndWhetherTheAnswersAgree) {
  OutputDifference d;
  const InputForm picture = input({2, 3, 8, 8});
  add_difference(d, tensor_of({2, 3}, {1, 2, 3, 3, 2, 1}), tensor_of({2, 3}, {1, 2, 3, 2, 4, 1}), picture, "a");
  EXPECT_EQ(d.largest, 2);
  EXPECT_EQ(d.at, 4);
  EXPECT_EQ(d.largest_magnitude, 4);
  EXPECT_EQ(d.agree, 1);
  EXPECT_EQ(d.decisions, 2);
  EXPECT_NEAR(d.cosine(), (14 + 6 + 8 + 1) / std::sqrt(28.0 * 35), 1e-12);
  OutputDifference same;
  add_difference(same, tensor_of({2, 3}, {1, 2, 3, 3, 2, NAN}), tensor_of({2, 3}, {1, 2, 3, 3, 2, NAN}), picture, "a");
  EXPECT_EQ(same.largest, 0);
  OutputDifference broken;
  add_difference(broken, tensor_of({2, 1}, {1, NAN}), tensor_of({2, 1}, {1, 2}), picture, "a");
  EXPECT_TRUE(std::isinf(broken.largest));
  EXPECT_EQ(broken.decisions, 0);
}

TEST(TimingPlan, FlagsMeanWhatTheySay) {
  TimingFlags flags;
  EXPECT_FALSE(flags.given());
  EXPECT_EQ(timing_plan(flags)->seconds, 0.5);
  flags.repeat = 7;
  EXPECT_EQ(timing_plan(flags)->runs, 7);
  EXPECT_EQ(timing_plan(flags)->seconds, 0);
  flags.duration = 2;
  EXPECT_EQ(timing_plan(flags)->seconds, 2);
  flags.warm_up = "0";
  EXPECT_EQ(timing_plan(flags)->warm_ups, 0);
  flags.warm_up = "5";
  EXPECT_EQ(timing_plan(flags)->warm_ups, 5);
  EXPECT_EQ(timing_plan(flags)->warm_up_seconds, 0);
  flags.warm_up = "200ms";
  EXPECT_NEAR(timing_plan(flags)->warm_up_seconds, 0.2, 1e-12);
  for (const char* wrong : {"-1", "x", "5 parsecs", "-1s", "1e99s"}) {
    flags.warm_up = wrong;
    const auto plan = timing_plan(flags);
    ASSERT_FALSE(plan.ok()) << wrong;
    EXPECT_NE(plan.error().message.find("--warmup"), std::string::npos);
  }
}

TEST(RunTimes, TheFirstRunIsNotTheNetworksTime) {
  RunTimes times;
  times.add({.seconds = 0.1, .step_seconds = {0.06, 0.04}}, true, 4);
  EXPECT_TRUE(times.first_only());
  EXPECT_NE(times.text().find("first run 100 ms, 40.0 images a second"), std::string::npos) << times.text();
  EXPECT_EQ(times.json()["timing"], "first run");
  EXPECT_TRUE(times.json()["p90_seconds"].is_null());
  EXPECT_EQ(times.step_seconds(), (std::vector<double>{0.06, 0.04}));
  for (int i = 1; i <= 5; ++i) times.add({.seconds = 0.01 * i, .step_seconds = {0.01, 0.01 * i}}, false, 4);
  EXPECT_EQ(times.json()["timing"], "warm");
  EXPECT_NEAR(times.median(), 0.03, 1e-12);
  EXPECT_NEAR(times.json()["p10_seconds"].get<double>(), 0.014, 1e-12);
  EXPECT_NEAR(times.json()["p90_seconds"].get<double>(), 0.046, 1e-12);
  EXPECT_NEAR(times.json()["images_per_second"].get<double>(), 4 / 0.03, 1e-9);
  EXPECT_NEAR(times.step_seconds()[1], 0.03, 1e-12);
}

}  // namespace
}  // namespace convoy::cli

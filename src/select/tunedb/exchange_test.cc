// Export and import as text; which record a merge keeps.
#include <gtest/gtest.h>

#include <limits>

#include "convoy/tuning_database.h"

namespace convoy {
namespace {

TuningRecord sample() {
  TuningRecord record;
  record.key = {"fprop:x=f32,1x8x6x6,nchw:w=f32,8x8x3x3,nchw:y=f32,1x8x4x4,nchw",
                "cpu Test l1d=32K l2=1M l3=8M",
                "avx2",
                "",
                2,
                true,
                CacheState::cold};
  record.measurement.candidate = {"cpu.winograd", {{"m", 4}}};
  record.measurement.median_seconds = 0.1 + 0.2;  // needs all 17 digits
  record.measurement.samples = 12;
  record.measurement.spread = 1.0 / 3;
  record.measurement.state = MeasurementState::complete;
  record.date = "2026-11-21T15:41:02Z";
  return record;
}

TEST(Exchange, TextReadsBackAsTheSameText) {
  TuningRecord plain = sample(), failed = sample(), odd = sample();
  failed.measurement.candidate = {"cpu.gemm", {}};
  failed.measurement.max_error = std::numeric_limits<double>::infinity();
  failed.measurement.failure = Error{ErrorCode::wrong_result, "line one\nline \"two\""};
  odd.measurement.candidate = {"onednn.brgemm", {{"a", -1}, {"b", 2}}};
  odd.measurement.provider = "oneDNN 3.2.0";
  odd.measurement.energy_joules = 1e-3;
  odd.key.constant_weights = false;
  odd.key.caches = CacheState::warm;
  const std::vector<TuningRecord> records = {plain, failed, odd};
  const std::string text = export_lines(records);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  const auto back = parse_lines(text, "a.jsonl");
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), 3u);
  EXPECT_EQ(export_lines(*back), text);
  EXPECT_EQ((*back)[0].measurement.median_seconds, plain.measurement.median_seconds);
  EXPECT_EQ((*back)[0].key, plain.key);
  EXPECT_EQ((*back)[1].measurement.failure->message, failed.measurement.failure->message);
  EXPECT_EQ((*back)[2].measurement.candidate, odd.measurement.candidate);
}

TEST(Exchange, OperatorsAndConversionsAreExchangedWithTheOthers) {
  TuningRecord op = sample(), conversion = sample();
  op.key.problem = "op:Relu:x=f32,1x8x6x6,nhwc:y=f32,1x8x6x6,nhwc";
  op.measurement.candidate = {"ops.Relu", {}};
  conversion.key.problem = "convert:x=f32,1x8x6x6,nhwc:y=f32,1x8x6x6,nchw";
  conversion.measurement.candidate = {"convert", {}};
  const std::string text = export_lines(std::vector{conversion, op});
  const auto back = parse_lines(text, "a.jsonl");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(export_lines(*back), text);
  op.measurement.candidate = {"cpu.gemm", {}};
  const auto mixed = parse_lines(export_lines(std::vector{op}), "a.jsonl");
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.error().message.find("'candidate'"), std::string::npos) << mixed.error().message;
  TuningRecord convolution = sample();
  convolution.measurement.candidate = {"convert", {}};
  EXPECT_FALSE(parse_lines(export_lines(std::vector{convolution}), "a.jsonl").ok());
}

TEST(Exchange, TheFormIsStable) {
  EXPECT_EQ(export_lines(std::vector{sample()}),
            "{\"format\":\"convoy-tuning\",\"version\":1}\n"
            "{\"problem\":\"fprop:x=f32,1x8x6x6,nchw:w=f32,8x8x3x3,nchw:y=f32,1x8x4x4,nchw\","
            "\"device\":\"cpu Test l1d=32K l2=1M l3=8M\",\"isa\":\"avx2\",\"driver\":\"\",\"threads\":2,"
            "\"weights\":\"constant\",\"caches\":\"cold\",\"candidate\":\"cpu.winograd{m=4}\",\"revision\":1,"
            "\"provider\":\"\",\"state\":\"complete\",\"seconds\":0.30000000000000004,\"spread\":0.3333333333333333,"
            "\"samples\":12,\"workspace_bytes\":0,\"error\":0.0,\"error_absolute\":0.0,"
            "\"date\":\"2026-11-21T15:41:02Z\"}\n");
}

TEST(Exchange, DeepNestingIsNoRecord) {
  const std::string good = export_lines(std::vector{sample()});
  const std::string header = good.substr(0, good.find('\n') + 1);
  const std::string deep = "{\"problem\":" + std::string(400'000, '[') + std::string(400'000, ']') + "}";
  const auto parsed = parse_lines(header + deep, "f");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message, "f:2: 'problem' is an array, not a text");
}

TEST(Exchange, BadLinesAreNamedByFileLineAndField) {
  const std::string good = export_lines(std::vector{sample()});
  const std::string header = good.substr(0, good.find('\n') + 1), line = good.substr(header.size());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = line;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return header + text.replace(at, from.size(), to);
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "no line"},
      {"SQLite format 3\n", "convoy db merge f"},
      {"x", "not a JSON object"},
      {line, "must begin with"},
      {header + "{\"a\":", "f:2: not a JSON object"},
      {header + "[1]", "not a JSON object"},
      {header + "{}", "'problem' is missing"},
      {with("fprop:", "fprap:"), "'problem'"},
      {with("8x8x3x3", "8x9x3x3"), "'problem'"},
      {with("\"threads\":2", "\"threads\":0"), "'threads' is 0"},
      {with("\"threads\":2", "\"threads\":18446744073709551615"), "'threads'"},
      {with("\"threads\":2", "\"threads\":\"2\""), "'threads'"},
      {with("\"constant\"", "\"none\""), "'weights'"},
      {with("\"cold\"", "\"tepid\""), "'caches'"},
      {with("\"avx2\"", "\"a\\nb\""), "'isa' is \"a\\nb\", not a text without control characters"},
      {with("{m=4}", "{m=4"), "'candidate'"},
      {with("\"complete\"", "\"done\""), "'state'"},
      {with("0.30000000000000004", "-1"), "'seconds' is -1"},
      {with("0.30000000000000004", "null"), "'seconds' is null"},
      {with("0.30000000000000004", "1e999"), "not a JSON object"},
      {with("\"error\":0.0", "\"error\":\"NaN\""), "'error'"},
      {with("\"date\":\"2026", "\"date\":\"26"), "'date'"},
      {with("\"date\"", "\"failure_code\":\"sad\",\"failure\":\"\",\"date\""), "'failure_code'"},
      {with("\"date\"", "\"mood\":1,\"date\""), "'mood' is no field"},
      {header + std::string(100000, '['), "not a JSON object"},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_lines(text, "f");
    ASSERT_FALSE(parsed.ok()) << text.substr(0, 300);
    EXPECT_EQ(parsed.error().code, ErrorCode::corrupt);
    EXPECT_NE(parsed.error().message.find(expected), std::string::npos) << parsed.error().message;
    EXPECT_TRUE(parsed.error().message.starts_with("f:")) << parsed.error().message;
  }
  const auto newer = parse_lines("{\"format\":\"convoy-tuning\",\"version\":2}", "f");
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, ErrorCode::unsupported);
}

TEST(Exchange, TheBetterAttestedRecordIsATotalOrder) {
  const TuningRecord base = sample();
  std::vector<TuningRecord> worse_to_better;
  const auto add = [&](auto change) {
    TuningRecord record = base;
    change(record);
    worse_to_better.push_back(record);
  };
  add([](TuningRecord& r) {  // an outdated verdict, however well it was attested
    r.measurement.samples = 1000;
    r.measurement.failure = Error{ErrorCode::wrong_result, "wrong"};
    r.rule = verification_rule - 1;
  });
  add([](TuningRecord& r) { r.measurement.state = MeasurementState::partial; });
  add([](TuningRecord& r) { r.measurement.state = MeasurementState::cut_off; });
  add([](TuningRecord& r) { r.measurement.samples = 5; });
  add([](TuningRecord& r) { r.measurement.spread = 0.5; });
  add([](TuningRecord& r) { r.date = "2025-01-01T00:00:00Z"; });
  add([](TuningRecord& r) { r.measurement.median_seconds = 1; });
  add([](TuningRecord&) {});
  add([](TuningRecord& r) {
    r.measurement.samples = 1;
    r.measurement.failure = Error{ErrorCode::wrong_result, "wrong"};
  });
  for (std::size_t i = 0; i < worse_to_better.size(); ++i) {
    for (std::size_t j = 0; j < worse_to_better.size(); ++j) {
      EXPECT_EQ(better_attested(worse_to_better[i], worse_to_better[j]), i > j) << i << " " << j;
    }
  }
}

// Lines of Convoys whose configurations were packed into numbers.
TEST(Exchange, KnobsAsTheyWereWrittenGetNames) {
  TuningRecord record = sample();
  record.measurement.candidate = *parse_candidate("cuda.depthwise{tile=200560701}");
  const auto back = parse_lines(export_lines(std::vector{record}), "a.jsonl");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(print(back->front().measurement.candidate), "cuda.depthwise{columns=7,kernel=rolling,rows=56}");
}

// Lines of Convoys that did not write the rule.
TEST(Exchange, AWrongResultWithoutARuleIsOfTheFirst) {
  TuningRecord record = sample();
  record.measurement.failure = Error{ErrorCode::wrong_result, "wrong"};
  std::string text = export_lines(std::vector{record});
  const auto now = parse_lines(text, "a.jsonl");
  ASSERT_TRUE(now.ok()) << now.error().message;
  EXPECT_EQ(now->front().rule, verification_rule);
  EXPECT_FALSE(is_outdated_verdict(now->front()));
  const std::string field = "\"rule\":" + std::to_string(verification_rule) + ",";
  ASSERT_NE(text.find(field), std::string::npos) << text;
  text.erase(text.find(field), field.size());
  const auto before = parse_lines(text, "a.jsonl");
  ASSERT_TRUE(before.ok()) << before.error().message;
  EXPECT_EQ(before->front().rule, 1);
  EXPECT_TRUE(is_outdated_verdict(before->front()));
  // Only a wrong result is a verdict.
  record.measurement.failure = Error{ErrorCode::unsupported, "no"};
  record.rule = 1;
  EXPECT_FALSE(is_outdated_verdict(record));
}

}  // namespace
}  // namespace convoy

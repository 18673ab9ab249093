#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "report/format.h"
#include "report/json.h"
#include "report/listing.h"
#include "report/progress.h"
#include "report/refusals.h"
#include "report/table.h"

namespace convoy::report {
namespace {

TEST(Format, RatesArePerSecond) {
  EXPECT_EQ(per_second(1234.4, "image"), "1,234 images a second");
  EXPECT_EQ(per_second(12.34, "image"), "12.3 images a second");
  EXPECT_EQ(per_second(0.25, "image"), "0.25 images a second");
}

TEST(Format, Quantities) {
  EXPECT_EQ(seconds(12.34e-6), "12.3 us");
  EXPECT_EQ(seconds(4.567e-3), "4.57 ms");
  EXPECT_EQ(seconds(123.4), "123 s");
  EXPECT_EQ(bytes(512), "512 B");
  EXPECT_EQ(bytes(1536), "1.50 KiB");
  EXPECT_EQ(bytes(12.3 * 1024 * 1024), "12.3 MiB");
  EXPECT_EQ(thousands(0), "0");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(thousands(15523464), "15,523,464");
  EXPECT_EQ(thousands(-1000), "-1,000");
  EXPECT_EQ(thousands(-100), "-100");
  EXPECT_EQ(percent(0.0314), "3.1%");
  EXPECT_EQ(rate(123.4e9), "123");
  EXPECT_EQ(number(4.5e-7), "4.5e-07");
  EXPECT_EQ(number(0), "0");
}

TEST(Format, ShortName) {
  const auto plain = parse_problem("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1");
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_EQ(short_name(*plain), "3x3 64->64 56x56 nhwc");
  const auto busy =
      parse_problem("fprop:x=f16,8x64x56x28,nchw:w=f16,64x2x3x3:pad=2x2:stride=2x2:dilation=2x2:groups=32");
  ASSERT_TRUE(busy.ok()) << busy.error().message;
  EXPECT_EQ(short_name(*busy), "3x3/2 d2 64->64 g32 56x28 n8 f16 nchw");
}

TEST(Table, AlignsAndStylesOnlyWithColour) {
  Table table;
  table.column("engine").column("ms", Align::right).column("note");
  table.row({"cpu.direct", "1.5", "x"}, Style::good);
  table.row({"b", "12.25"});
  EXPECT_EQ(table.render({}).text,
            "engine         ms  note\n"
            "----------  -----  ----\n"
            "cpu.direct    1.5  x\n"
            "b           12.25\n");
  EXPECT_EQ(table.render({}).text.find('\x1b'), std::string::npos);
  EXPECT_NE(table.render({0, true}, 2).text.find("  \x1b[32mcpu.direct"), std::string::npos);
}

TEST(Table, CountsCodePoints) {
  Table table;
  table.column("a").column("b");
  table.row({"\xc3\xa9", "1"});
  table.row({"xx", "2"});
  EXPECT_NE(table.render({}).text.find("\xc3\xa9   1\n"), std::string::npos);
}

TEST(Table, LeavesOutColumnsOfHighRankAndWrapsTheRest) {
  Table table;
  table.column("engine").column("time", Align::right).column("GB/s", Align::right, 2).column("error", Align::right, 1);
  table.column("notes").column("none", Align::right);
  table.row({"cpu.direct", "1.23 ms", "12.3", "0.5", "weights are packed once and then read in order", ""});
  const auto all = table.render({});
  EXPECT_EQ(all.left_out, std::vector<std::string>());
  EXPECT_EQ(all.text,
            "engine         time  GB/s  error  notes\n"
            "----------  -------  ----  -----  ----------------------------------------------\n"
            "cpu.direct  1.23 ms  12.3    0.5  weights are packed once and then read in order\n");
  const auto narrow = table.render({54, false}, 2);
  EXPECT_EQ(narrow.left_out, std::vector<std::string>({"GB/s"}));
  EXPECT_EQ(narrow.text,
            "  engine         time  error  notes\n"
            "  ----------  -------  -----  ------------------------\n"
            "  cpu.direct  1.23 ms    0.5  weights are packed once\n"
            "                              and then read in order\n");
  EXPECT_EQ(table.render({45, false}).left_out, std::vector<std::string>({"GB/s", "error"}));
}

TEST(Table, IsNeverWiderThanThePage) {
  Table table;
  table.column("candidate").column("time", Align::right).column("rate", Align::right, 1).column("problem");
  table.row({"onednn.brgconv_1x1{threads=2,block=16}", "12.3 ms", "123",
             "fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1:bias=1:act=relu"},
            Style::bad);
  table.row({"a\tb\n", "1", "2", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 end"});
  for (std::size_t width = 1; width < 140; ++width) {
    for (const int indent : {0, 4}) {
      if (width <= static_cast<std::size_t>(indent)) continue;
      std::istringstream lines(table.render({width, true}, indent).text);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), width) << line;
    }
  }
}

TEST(Page, TextIsBrokenAtSpacesThenInWords) {
  EXPECT_EQ(wrapped("one two three", 0), "one two three");
  EXPECT_EQ(wrapped("one two three\n", 20), "one two three\n");
  EXPECT_EQ(wrapped("one two three", 8), "one two\n  three");
  EXPECT_EQ(wrapped("  one two three\n\nfour", 9), "  one two\n    three\n\nfour");
  EXPECT_EQ(wrapped("one two three", 7, 0), "one two\nthree");
  EXPECT_EQ(wrapped("fprop:x=f32,1x64x56x56:w=f32", 16), "fprop:x=f32,\n  1x64x56x56:\n  w=f32");
  EXPECT_EQ(wrapped("abcdefghij", 4), "abcd\n  ef\n  gh\n  ij");
  // A style goes on over the break and takes no columns.
  EXPECT_EQ(wrapped("\x1b[31mone two three\x1b[0m", 8), "\x1b[31mone two\n  three\x1b[0m");
  EXPECT_EQ(columns_of("\x1b[31m\xc3\xa9t\xc3\xa9\x1b[0m"), 3U);
}

TEST(Page, ColumnsSaysTheWidth) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ::unsetenv("COLUMNS");
  EXPECT_EQ(page_of(file).width, 0U);
  ::setenv("COLUMNS", "72", 1);
  EXPECT_EQ(page_of(file).width, 72U);
  EXPECT_EQ(page_of(file, true).width, 0U);
  for (const char* nothing : {"0", "-3", "wide", "80x"}) {
    ::setenv("COLUMNS", nothing, 1);
    EXPECT_EQ(page_of(file).width, 0U) << nothing;
  }
  ::unsetenv("COLUMNS");
  std::fclose(file);
}

TEST(Progress, Line) {
  EXPECT_EQ(Progress::line("tuning", 0.5, "conv1", 80), "tuning [############............]  50%  conv1");
  EXPECT_EQ(Progress::line("tuning", 7, "", 12).size(), 12U);
  EXPECT_NE(Progress::line("t", NAN, "", 80).find("  0%"), std::string::npos);
}

TEST(JsonDocuments, SurviveBadTextAndNumbers) {
  NetworkValue value;
  value.name = "\xff\xfe";
  value.dims = {1, -1, -1};
  value.dim_names = {"", "H", ""};
  const std::string text = dump(to_json(value));
  const Json back = Json::parse(text);
  EXPECT_EQ(back["dims"], Json({1, "H", nullptr}));
  EXPECT_TRUE(number_or_null(INFINITY).is_null());
}

TEST(JsonDocuments, Measurements) {
  const auto problem = parse_problem("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1");
  ASSERT_TRUE(problem.ok());
  Measurement measurement;
  measurement.candidate = {"cpu.direct", {}};
  measurement.median_seconds = 1e-3;
  const Json good = to_json(measurement, *problem);
  EXPECT_EQ(good["status"], "ok");
  EXPECT_NEAR(good["gflops"].get<double>(), flops(*problem) * 1e-6, 1e-6);
  measurement.failure = Error{ErrorCode::wrong_result, "off by one"};
  EXPECT_EQ(to_json(measurement, *problem)["status"], "wrong");
}

TEST(Listing, IsATableAndItsJsonFromOneDescription) {
  struct Layer {
    std::string name;
    double seconds;
    std::optional<int> kernels;
  };
  Listing<Layer> listing;
  listing.column("layer", "name", [](const Layer& layer) { return layer.name; })
      .column(
          "time", "seconds", [](const Layer& layer) { return layer.seconds; }, as_seconds, Align::right)
      .column("kernels", "kernels", [](const Layer& layer) { return layer.kernels; })
      .cell("remark", [](const Layer& layer) { return layer.seconds > 1 ? "slow" : ""; })
      .field("tags", [](const Layer&) {
        return std::vector<std::string>{"a", "b"};
      });
  const auto [table, json] = listing.both(std::vector<Layer>{{"conv", 2, 3}, {"pool", 0.5, std::nullopt}});
  EXPECT_EQ(table.render({}).text,
            "layer    time  kernels  remark\n"
            "-----  ------  -------  ------\n"
            "conv   2.00 s  3        slow\n"
            "pool   500 ms\n");
  EXPECT_EQ(json.dump(), R"([{"name":"conv","seconds":2.0,"kernels":3,"tags":["a","b"]},)"
                         R"({"name":"pool","seconds":0.5,"tags":["a","b"]}])");
  EXPECT_EQ(as_text(json[0]["tags"]), "a b");
}

TEST(Listing, OfAFailedMeasurementHasTheReasonAndNoTimes) {
  const auto problem = parse_problem("fprop:x=f32,1x4x8x8:w=f32,4x4x3x3");
  ASSERT_TRUE(problem.ok());
  Measurement wrong{.candidate = {"cpu.gemm", {}}, .median_seconds = 1, .max_error = 7};
  wrong.failure = Error{ErrorCode::wrong_result, "differs"};
  const Listing<Measurement> listing = measurement_listing(*problem);
  EXPECT_EQ(listing.json(wrong).dump(),
            R"({"candidate":"cpu.gemm","engine":"cpu.gemm","status":"wrong","reason":"differs","max_error":7.0})");
  Table table = listing.table();
  listing.add(table, wrong);
  EXPECT_EQ(table.render({}).text, "candidate  error/tol\n---------  ---------\ncpu.gemm        7.00\n");
  wrong.failure->code = ErrorCode::internal;
  EXPECT_FALSE(listing.json(wrong).contains("max_error"));
}

TEST(Refusals, EqualReasonsShareALine) {
  Refusals refusals;
  EXPECT_TRUE(refusals.empty());
  const Refusal pass{RefusalCode::pass, "pass=wgrad: this engine computes fprop"};
  refusals.add("a", pass);
  refusals.add("b", {RefusalCode::layout, pass.reason});  // another field
  for (const char* engine : {"c", "d", "e"}) refusals.add(engine, pass);
  ASSERT_EQ(refusals.groups().size(), 2U);
  EXPECT_EQ(refusals.groups()[0].names(), "a, c, ... (4)");
  EXPECT_EQ(refusals.groups()[0].refusal.reason, pass.reason);
  EXPECT_EQ(refusals.groups()[1].names(), "b");
}

}  // namespace
}  // namespace convoy::report

#include "base/json.h"

#include <cmath>
#include <limits>
#include <string>

#include "catch.h"
#include "check_contains.h"

using namespace quire;

namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const Result<Json> json = parse_json(text, limits);
  if (json) return "no error";
  CHECK(json.status().code() == StatusCode::malformed);
  return json.status().message();
}

}  // namespace

TEST_CASE("JSON values keep their kind") {
  const Result<Json> json = parse_json(
      R"( {"n":null,"t":true,"i":-7,"r":0.5,"e":1e3,"s":"a\u00e9\ud83d\ude0a\u0000b","l":[1,[],{}]} )");
  REQUIRE(json.ok());
  CHECK(json->find("n")->is_null());
  CHECK(*json->find("t")->boolean());
  CHECK(*json->find("i")->integer() == -7);
  CHECK(*json->find("r")->real() == 0.5);
  CHECK(json->find("e")->integer() == nullptr);
  CHECK(json->find("e")->number() == 1000);
  CHECK(*json->find("s")->string() == std::string("a\xc3\xa9\xf0\x9f\x98\x8a\0b", 9));
  REQUIRE(json->find("l")->array()->size() == 3);
  CHECK(json->find("l")->array()->at(1).array()->empty());
  CHECK(json->find("absent") == nullptr);
  CHECK(json->find("l")->find("n") == nullptr);
}

TEST_CASE("JSON integers that do not fit int64 are reals") {
  CHECK(*parse_json("9223372036854775807")->integer() == INT64_MAX);
  CHECK(*parse_json("-9223372036854775808")->integer() == INT64_MIN);
  CHECK(*parse_json("9223372036854775808")->real() == 9223372036854775808.0);
  CHECK(*parse_json("-9223372036854775809")->real() == -9223372036854775808.0);
  CHECK(*parse_json("100000000000000000000")->real() == 1e20);
}

TEST_CASE("JSON objects keep the order of the text") {
  const Result<Json> json = parse_json(R"({"z":1,"a":2,"m":3})");
  const JsonObject& members = *json->object();
  CHECK(members[0].first == "z");
  CHECK(members[1].first == "a");
  CHECK(members[2].first == "m");
  CHECK(dump_json(*json) == R"({"z":1,"a":2,"m":3})");
}

TEST_CASE("text that is no JSON is refused") {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "'a'",
                           "1 2",
                           "nul",
                           "NaN",
                           "Infinity",
                           "01",
                           "1.",
                           "+1",
                           "\"\\x\"",
                           "\"\t\"",
                           "\"unended",
                           "// no\n1",
                           "1e999",
                           "[1]]",
                           "\xff",
                           "\"\xc3\x28\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\\ud83d\"",
                           "\"\\ude0a\\ud83d\""}) {
    INFO(text);
    CHECK(error_of(text) != "no error");
  }
  check_contains(error_of("[1, x]"), "byte 5");
}

TEST_CASE("JSON nesting is limited") {
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  CHECK(parse_json(deep).ok());
  check_contains(error_of('[' + deep + ']'), "200 levels");
  check_contains(error_of(std::string(1000000, '[')), "200 levels");
  check_contains(error_of(R"({"a":{"b":1}})", {.max_depth = 1}), "1 levels");
}

TEST_CASE("a JSON key that appears twice in one object is an error, unless allowed") {
  check_contains(error_of(R"({"a":1,"b":{"a":2},"a":3})"), "\"a\" appears twice");
  // The same key, spelt differently.
  check_contains(error_of(R"({"a":1,"\u0061":3})"), "appears twice");
  CHECK(parse_json(R"([{"a":1},{"a":2}])").ok());
  const Result<Json> both = parse_json(R"({"a":1,"a":3})", {.reject_duplicate_keys = false});
  REQUIRE(both.ok());
  CHECK(both->object()->size() == 2);
}

TEST_CASE("JSON is written so that it reads back equal, and hostile strings cannot break it") {
  const std::string text = R"({"s":"\"\\\u0001é","l":[1,-2.5,true,null],"o":{}})";
  CHECK(dump_json(*parse_json(text)) == text);
  CHECK(dump_json(Json("\xff"
                       "a")) ==
        "\"\xef\xbf\xbd"
        "a\"");
  CHECK(dump_json(Json(std::nan(""))) == "null");
  CHECK(dump_json(Json(std::numeric_limits<double>::infinity())) == "null");
  CHECK(dump_json(Json(JsonArray{Json(1), Json("x")}), 2) == "[\n  1,\n  \"x\"\n]");
}

TEST_CASE("setting a member replaces it or appends it") {
  Json json;
  json.set("a", 1);
  json.set("b", "x");
  json.set("a", true);
  CHECK(dump_json(json) == R"({"a":true,"b":"x"})");
}

TEST_CASE("writing a large object takes time in proportion to its members") {
  JsonObject members;
  for (int i = 0; i < 200000; ++i) members.emplace_back(std::to_string(i), Json(i));
  const std::string text = dump_json(Json(std::move(members)));  // minutes if quadratic
  CHECK(parse_json(text)->object()->size() == 200000);
}

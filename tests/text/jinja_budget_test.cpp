#include <iterator>
#include <string>

#include "catch.h"
#include "chat_template_test_support.h"
#include "emulated.h"

using namespace quire;
using namespace quire::text;

namespace {

Json nothing() {
  return Json(JsonObject{});
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

// The Status of parsing and rendering.
Status outcome(const std::string& source, const TemplateBudget& budget = {}) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.status();
  return parsed->render(nothing(), 0, budget).status();
}

}  // namespace

TEST_CASE("templates that want too much end with resource_exhausted") {
  const char* greedy[] = {
      "{% for i in range(10**9) %}x{% endfor %}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{{ 'x' * 10**12 }}",
      "{{ 'xy' * (2**62) }}",
      "{{ ([0] * 10**12) | length }}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s "
      "%}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(64) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{% if true %}{{ f() }}{% endif %}{% "
      "endmacro %}{{ f() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set s = 'a' * 10000000 %}{% for i in range(10000) %}{{ s }}{% endfor %}",
      "{% set s = 'a' * 10000000 %}{% for i in range(100000) %}{% set t = s | upper %}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ (s ~ 'b') in s ~ s }}{% endfor %}",
      "{{ 'x'.ljust(10**15) }}",
      "{{ '%1000000000000d' % 1 }}",
      "{{ '{:>1000000000000}'.format(1) }}",
      "{{ 'a' | indent(10**14, true) }}",
      "{{ [1] | tojson(indent=10**14) }}",
      "{{ ('a' * 10**6).replace('', 'b' * 10**6) }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}{{ ns.x }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}{{ ns.x | tojson }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}{{ ns.x == [ns.x] }}",
      "{% set ns = namespace(s='') %}{% for i in range(10**6) %}{% set ns.s = ns.s ~ "
      "'xxxxxxxxxxxxxxxx' %}{% endfor %}",
  };
  for (std::size_t i = 0; i < std::size(greedy); i += testing::kEmulated ? 5 : 1) {
    const char* source = greedy[i];
    INFO(source);
    Status status = outcome(source);
    INFO(status.message());
    CHECK(status.code() == StatusCode::resource_exhausted);
    CHECK(status.message().find("line 1, column ") != std::string::npos);
  }
}

TEST_CASE("a namespace that holds itself is printed to a limit and freed") {
  Status status = outcome("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}");
  CHECK(status.code() == StatusCode::resource_exhausted);
  CHECK(render_text("{% set ns = namespace(v=5) %}{% set ns.me = ns %}{{ ns.me.me.v }}",
                    nothing()) == "5");
}

TEST_CASE("budget messages have both numbers") {
  TemplateBudget steps;
  steps.steps = 1000;
  // Ranges this short are charged one step at a time.
  Status status =
      outcome(repeated("{% for i in range(7) %}", 4) + repeated("{% endfor %}", 4), steps);
  CHECK(status.code() == StatusCode::resource_exhausted);
  CHECK(status.message().find("more than 1000 steps (1001 wanted)") != std::string::npos);

  TemplateBudget output;
  output.output_bytes = 10;
  status = outcome("123456{{ 'abcdef' }}", output);
  CHECK(status.code() == StatusCode::resource_exhausted);
  CHECK(status.message().find("longer than 10 bytes (12 wanted)") != std::string::npos);

  TemplateBudget memory;
  memory.memory_bytes = 4096;
  status = outcome("{{ 'x' * 5000 }}", memory);
  CHECK(status.code() == StatusCode::resource_exhausted);
  CHECK(status.message().find("4096 bytes") != std::string::npos);
  CHECK(status.message().find("5000 more wanted") != std::string::npos);
}

TEST_CASE("deep nesting in a source is an error, not a stack overflow") {
  const int kDeep = 60000;
  const std::string sources[] = {
      "{{ " + repeated("(", kDeep) + "1" + repeated(")", kDeep) + " }}",
      "{{ " + repeated("[", kDeep) + repeated("]", kDeep) + " }}",
      "{{ " + repeated("{'a':", kDeep) + "1" + repeated("}", kDeep) + " }}",
      "{{ " + repeated("not ", kDeep) + "1 }}",
      "{{ " + repeated("-", kDeep) + "1 }}",
      "{{ 1" + repeated(" if 1 else 1", kDeep) + " }}",
      "{{ f" + repeated("(f", kDeep) + repeated(")", kDeep) + " }}",
      repeated("{% if 1 %}", kDeep) + repeated("{% endif %}", kDeep),
      repeated("{% for i in [1] %}", kDeep) + repeated("{% endfor %}", kDeep),
      "{% set " + repeated("(", kDeep) + "a" + repeated(")", kDeep) + " = 1 %}",
      repeated("{% macro a() %}", kDeep),
  };
  for (const std::string& source : sources) {
    INFO(source.substr(0, 30));
    Status status = outcome(source);
    CHECK(status.code() == StatusCode::malformed);
    CHECK(status.message().find("nesting") != std::string::npos);
  }
}

TEST_CASE("long chains are an error at most, not a stack overflow") {
  const int kLong = 60000;
  CHECK(!outcome("{{ 1" + repeated(" + 1", kLong) + " }}").ok());
  CHECK(!outcome("{{ 2" + repeated(" ** 1", kLong) + " }}").ok());
  CHECK(!outcome("{{ a" + repeated(".a", kLong) + " }}").ok());
  CHECK(!outcome("{{ 1" + repeated("|string", kLong) + " }}").ok());
  CHECK(!outcome("{% filter upper" + repeated("|upper", kLong) + " %}a{% endfilter %}").ok());
  CHECK(outcome("{{ 1" + repeated(" ~ 1", kLong) + " }}").ok());
  CHECK(outcome("{{ 1" + repeated(" and 1", kLong) + " }}").ok());
  CHECK(outcome("{% if 0 %}" + repeated("{% elif 0 %}", kLong) + "{% endif %}").ok());
  CHECK(outcome("{{ [" + repeated("1,", kLong) + "] }}").ok());
}

TEST_CASE("errors name line and column") {
  auto message = [](const std::string& source) { return outcome(source).message(); };
  CHECK(message("a\n {{ x.y }}") == "chat template: line 2, column 7: 'x' is undefined");
  CHECK(message("ä{{ 1 + }}") ==
        "chat template: line 1, column 9: the tag ends where an expression is wanted");
  CHECK(message("\n{# open") ==
        "chat template: line 2, column 1: a comment is not closed with '#}'");
  CHECK(message("{% raw %}x") ==
        "chat template: line 1, column 1: a raw block is not closed with '{% endraw %}'");
  CHECK(message("{{ 'a }}") == "chat template: line 1, column 4: a string is not closed");
  CHECK(message("{{ a") == "chat template: line 1, column 1: a tag is not closed");
  CHECK(message("{% if 1 %}") ==
        "chat template: line 1, column 11: the template ends where 'endif' is wanted");
  CHECK(message("{% include 'x' %}") == "chat template: line 1, column 4: unknown tag 'include'");
  CHECK(message("{% break %}") == "chat template: line 1, column 10: 'break' is outside a loop");
  CHECK(message("{{ 1 | nope }}") ==
        "chat template: line 1, column 8: No filter named 'nope' found");
  CHECK(message("{{ 1 is nope }}") ==
        "chat template: line 1, column 6: No test named 'nope' found");
  CHECK(message("\n\n  {{ raise_exception('no ' ~ 1) }}") ==
        "chat template: line 3, column 21: no 1");
  CHECK(message("{{ [].append(1) }}") ==
        "chat template: line 1, column 13: 'append' would change a list, which templates may not");
}

TEST_CASE("what Python refuses is an error with Python's words") {
  auto contains = [](const std::string& source, const std::string& words) {
    Status status = outcome(source);
    INFO(source << " -> " << status.message());
    return status.code() == StatusCode::invalid_argument &&
           status.message().find(words) != std::string::npos;
  };
  CHECK(contains("{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"));
  CHECK(contains("{{ 'a' + {} }}", "can only concatenate str (not \"dict\") to str"));
  CHECK(contains("{{ 1 // 0 }}", "division or modulo by zero"));
  CHECK(contains("{{ 1 < 'a' }}", "'<' not supported between instances of 'int' and 'str'"));
  CHECK(contains("{% for x in none %}{% endfor %}", "'NoneType' object is not iterable"));
  CHECK(contains("{% for a, b in [1] %}{% endfor %}", "not iterable"));
  CHECK(contains("{% set a, b = [1] %}", "cannot unpack 1 values into 2 variables"));
  CHECK(contains("{{ (1)() }}", "'int' object is not callable"));
  CHECK(contains("{{ nope() }}", "'nope' is undefined"));
  CHECK(contains("{{ 9223372036854775807 + 1 }}", "does not fit 64 bits"));
  CHECK(contains("{{ (-9223372036854775807 - 1) // -1 }}", "does not fit 64 bits"));
  CHECK(contains("{{ {[]: 1} }}", "unhashable type: 'list'"));
  CHECK(contains("{% set d = {} %}{% set d.x = 1 %}", "non-namespace"));
  CHECK(contains("{{ range(1, 2, 0) }}", "must not be zero"));
  CHECK(contains("{{ 'x'.split('') }}", "empty separator"));
  CHECK(contains("{{ '%d' % 'x' }}", "a number is required, not str"));
  CHECK(contains("{{ 5[::0] ~ [1][::0] }}", "slice step cannot be zero"));
  CHECK(contains("{{ '{'.format() }}", "expected '}'"));
}

TEST_CASE("variables that are no object are refused") {
  auto parsed = ChatTemplate::parse("x");
  REQUIRE(parsed.ok());
  CHECK(parsed->render(Json(1), 0).status().code() == StatusCode::invalid_argument);
}

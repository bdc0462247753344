#include "catch.h"
#include "chat_template_test_support.h"

using namespace quire;

namespace {

// Rendered with u = "Ab<x>" and l = ["p", "q"] from the caller; ‹› marks what is untrusted.
std::string trust_of(const std::string& source) {
  Json variables(JsonObject{{"u", Json("Ab<x>")},
                            {"l", Json(JsonArray{Json("p"), Json("q")})},
                            {"d", Json(JsonObject{{"k", Json("v")}})},
                            {"bos_token", Json("<s>")},
                            {"i", Json(7)}});
  auto parsed = text::ChatTemplate::parse(source);
  if (!parsed) return parsed.status().message();
  auto rendered = parsed->render(variables, kGoldenNow);
  return rendered ? marked(*rendered) : rendered.status().message();
}

}  // namespace

TEST_CASE("the origin of every character survives string operations") {
  CHECK(trust_of("T{{ u }}T") == "T‹Ab<x>›T");
  CHECK(trust_of("{{ bos_token }}{{ u }}") == "<s>‹Ab<x>›");
  CHECK(trust_of("{{ 'a' + u + 'b' }}{{ 'c' ~ u }}") == "a‹Ab<x>›bc‹Ab<x>›");
  CHECK(trust_of("{{ (u ~ ' t ')[3:] | trim }}") == "‹x>› t");
  CHECK(trust_of("{{ ('t' + u)[:2] }}{{ u[0] }}{{ u[::-1] }}") == "t‹AA>x<bA›");
  CHECK(trust_of("{{ u | upper }}{{ ('t' ~ u) | lower }}{{ u | title }}") ==
        "‹AB<X>›t‹ab<x>Ab<X>›");
  CHECK(trust_of("{{ u.replace('<', '[') }}") == "‹Ab›[‹x>›");
  CHECK(trust_of("{{ 'a-b'.replace('-', u) }}") == "a‹Ab<x>›b");
  CHECK(trust_of("{{ ('t<' ~ u).split('<') | join('|') }}") == "t|‹Ab›|‹x>›");
  CHECK(trust_of("{{ l | join('+') }}{{ '+'.join(l) }}") == "‹p›+‹qp›+‹q›");
  CHECK(trust_of("{{ '{}!{}'.format(u, 't') }}{{ '%s?' % u }}") == "‹Ab<x>›!t‹Ab<x>›?");
  CHECK(trust_of("{% set x %}t{{ u }}{% endset %}{{ x }}") == "t‹Ab<x>›");
  CHECK(trust_of("{% macro f(v) %}[{{ v }}]{% endmacro %}{{ f(u) }}") == "[‹Ab<x>›]");
  CHECK(trust_of("{% filter upper %}t{{ u }}{% endfilter %}") == "T‹AB<X>›");
  CHECK(trust_of("{% set ns = namespace(v='t') %}{% set ns.v = ns.v ~ u %}{{ ns.v }}") ==
        "t‹Ab<x>›");
  CHECK(trust_of("{% for c in u %}{{ c }}.{% endfor %}") == "‹A›.‹b›.‹<›.‹x›.‹>›.");
  CHECK(trust_of("{% for k in d %}{{ k }}={{ d[k] }}{% endfor %}") == "‹k›=‹v›");
  CHECK(trust_of("{{ u | e }}{{ u | replace('x', 'y') }}") == "‹Ab&lt;x&gt;Ab<›y‹>›");
  CHECK(trust_of("{{ u.center(7, '*') }}{{ u | indent(2, true) }}") == "*‹Ab<x>›*  ‹Ab<x>›");
  CHECK(trust_of("{{ u * 2 }}{{ u.partition('<')[2] }}{{ [u, 't'] | last }}") == "‹Ab<x>Ab<x>x>›t");
}

TEST_CASE("what tojson and repr write around the caller's strings is untrusted") {
  CHECK(trust_of("{{ d | tojson }}") == "‹{\"k\": \"v\"}›");
  CHECK(trust_of("{{ l }}") == "‹['p', 'q']›");
  CHECK(trust_of("{{ ['t'] | tojson }}") == "‹[\"›t‹\"]›");
}

TEST_CASE("numbers are written as template text") {
  CHECK(trust_of("<|image_{{ i }}|>{{ 1.5 }}{{ true }}") == "<|image_7|>1.5True");
}

TEST_CASE("only top-level strings that end in _token count as template text") {
  Json variables(JsonObject{{"eos_token", Json("</s>")},
                            {"m", Json(JsonObject{{"bos_token", Json("<s>")}})},
                            {"x_token", Json(JsonArray{Json("y")})},
                            {"role", Json("system")}});
  auto parsed =
      text::ChatTemplate::parse("{{ eos_token }}{{ m.bos_token }}{{ x_token[0] }}{{ role }}");
  REQUIRE(parsed.ok());
  auto rendered = parsed->render(variables, kGoldenNow);
  REQUIRE(rendered.ok());
  CHECK(marked(*rendered) == "</s>‹<s>ysystem›");
}

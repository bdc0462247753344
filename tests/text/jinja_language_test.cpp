#include "catch.h"
#include "chat_template_test_support.h"

using namespace quire;

namespace {

struct Example {
  const char* source;
  const char* expected;
};

constexpr const char* kVariables =
    R"~({"t": "  Grüße, Wörld!  ", "l": [3, 1, 2], "d": {"b": 1, "a": [true, null, 1.5], "Ü": "x\"y"}, "n": null, "m": [{"role": "user", "n": 2}, {"role": "tool", "n": 1}, {"role": "user", "n": 3}], "s": "a,b,,c", "e": "", "h": "<b>&\"'"})~";

// Expected texts: Jinja2 3.1.6 with trim_blocks, lstrip_blocks and loop controls, and Hugging
// Face's tojson, rendered with kVariables.
const Example kExamples[] = {
    {R"~({{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }})~",
     R"~(3 -4 2 3.5 1024 0.5 3.0 0.5)~"},
    {R"~({{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ +3 }} {{ 'a' * 3 }} {{ [1] * 2 }} {{ 'a' ~ 1 ~ none ~ true }})~",
     R"~(3 9 4 64 3 aaa [1, 1] a1NoneTrue)~"},
    {R"~({{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }} {{ none == false }})~",
     R"~(True False True True True True True False)~"},
    {R"~({{ 'a' in 'abc' }} {{ 1 in l }} {{ 'b' in d }} {{ 'z' not in d }} {{ not 1 in l }} {{ 5 in l or 'x' }} {{ 0 and 1 }} {{ 1 and '' }})~",
     R"~(True True True True False x 0 )~"},
    {R"~({{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[:-1] }} {{ t[2:7] }} {{ t[::-2] }} {{ t[100:] }} {{ l[5] }} {{ t[4] }}{{ l[-9:9:2] }})~",
     R"~(3 2 [1, 2] [2, 1, 3] [3, 1] Grüße  !lö eüG    ü[3, 2])~"},
    {R"~({{ d.b }} {{ d['a'] }} {{ d.missing }} {{ d.get('x') }} {{ d.get('x', 5) }} {{ d['a'][2] }} {{ d.a.0 }} {{ d }})~",
     R"~(1 [True, None, 1.5]  None 5 1.5 True {'b': 1, 'a': [True, None, 1.5], 'Ü': 'x"y'})~"},
    {R"~({{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list | length }} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %})~",
     R"~([('b', 1), ('a', [True, None, 1.5]), ('Ü', 'x"y')] ['b', 'a', 'Ü'] 3 b=1;a=[True, None, 1.5];Ü=x"y;)~"},
    {R"~({{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.rstrip('ab') }}|{{ 'abc'.lstrip('ba') }})~",
     R"~(Grüße, Wörld!|Grüße, Wörld!  |  Grüße, Wörld!|a|abc|c)~"},
    {R"~({{ s.split(',') }} {{ s.split(',', 1) }} {{ s.rsplit(',', 1) }} {{ '  a  b '.split() }} {{ ' a b  c '.split(none, 1) }} {{ 'a\nb\r\nc'.splitlines() }})~",
     R"~(['a', 'b', '', 'c'] ['a', 'b,,c'] ['a,b,', 'c'] ['a', 'b'] ['a', 'b  c '] ['a', 'b', 'c'])~"},
    {R"~({{ s.replace(',', ';') }} {{ s.replace(',', '', 1) }} {{ 'ab'.replace('', '-') }} {{ s.count(',') }} {{ s.find('b') }} {{ s.find('z') }} {{ s.rfind(',') }} {{ s.index('c') }})~",
     R"~(a;b;;c ab,,c -a-b- 3 2 -1 4 5)~"},
    {R"~({{ 'abc'.startswith('a') }} {{ 'abc'.startswith(('x', 'ab')) }} {{ 'abc'.endswith('bc') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }})~",
     R"~(True True True bc ab ('a', '-', 'b-c') ('a-b', '-', 'c'))~"},
    {R"~({{ t.upper() }} {{ t.lower() }} {{ 'heLLo wORLD it\'s'.title() }} {{ 'heLLo'.capitalize() }} {{ 'heLLo wORLD-x it\'s' | title }} {{ 'straße'.upper() }})~",
     R"~(  GRÜSSE, WÖRLD!     grüße, wörld!   Hello World It'S Hello Hello World-X It's STRASSE)~"},
    {R"~({{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'aB'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }})~",
     R"~(True False True True True True True)~"},
    {R"~({{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '.') }}|{{ 'x'.center(4) }}|{{ '-5'.zfill(4) }}|{{ ','.join(['a', 'b']) }})~",
     R"~(x  |..x| x  |-005|a,b)~"},
    {R"~({{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format(1, 2) }} {{ '{x:>5}|{y:<4}|{z:^5}'.format(x='a', y=1, z='b') }} {{ '{:.2f} {:05d} {:,} {!r}'.format(3.14159, 42, 1234567, 'q') }} {{ '{{}}'.format() }} {{ '{0[a]} {0[b]}'.format({'a': 1, 'b': 2}) }})~",
     R"~(1 a 21     a|1   |  b   3.14 00042 1,234,567 'q' {} 1 2)~"},
    {R"~({{ '%s is %d and %.1f%%' % ('x', 5, 2.55) }} {{ '%5s|%-5s|%05d' % ('a', 'b', 42) }} {{ '%(k)s' % {'k': 1} }} {{ '%s' % 3 }} {{ '%x' % 255 }} {{ '%r' % 'a' }} {{ '%s-%s' | format('a', 2) }})~",
     R"~(x is 5 and 2.5%     a|b    |00042 1 3 ff 'a' a-2)~"},
    {R"~({{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 }} {{ 123456789.125 }} {{ 1e22 }} {{ 1.5e300 }} {{ 100000000000000000 }} {{ 0x1F }} {{ 1_000 }} {{ 0b101 }} {{ 3.0 * 2 }})~",
     R"~(1.0 1e+16 1e-05 0.1 123456789.125 1e+22 1.5e+300 100000000000000000 31 1000 5 6.0)~"},
    {R"~({{ [1, 'a', none, true, 1.5, {'k': "it's"}] }} {{ (1,) }} {{ () }} {{ (1, 'b') }} {{ ['"', "'", "'\"", '\n\t\\'] }} {{ ['é', '\x07'] }})~",
     R"~([1, 'a', None, True, 1.5, {'k': "it's"}] (1,) () (1, 'b') ['"', "'", '\'"', '\n\t\\'] ['é', '\x07'])~"},
    {R"~({{ d | tojson }} {{ d | tojson(indent=2) }} {{ l | tojson(indent=4) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(ensure_ascii=true) }} {{ [] | tojson(indent=2) }} {{ {'a': []} | tojson(indent=1) }})~",
     "{\"b\": 1, \"a\": [true, null, 1.5], \"Ü\": \"x\\\"y\"} {\n  \"b\": 1,\n  \"a\": [\n    "
     "true,\n    null,\n    1.5\n  ],\n  \"Ü\": \"x\\\"y\"\n} [\n    3,\n    1,\n    2\n] {\"a\": "
     "[true, null, 1.5], \"b\": 1, \"Ü\": \"x\\\"y\"} {\"b\": 1, \"a\": [true, null, 1.5], "
     "\"\\u00dc\": \"x\\\"y\"} [] {\n \"a\": []\n}"},
    {R"~({{ d | tojson(separators=(',', ':')) }} {{ {'a': 1, 2: none, true: 1.0} | tojson }} {{ '</b>\x01\u2028🙂' | tojson }} {{ '🙂' | tojson(ensure_ascii=true) }} {{ (1, 2) | tojson }} {{ 1e16 | tojson }})~",
     R"~({"b":1,"a":[true,null,1.5],"Ü":"x\"y"} {"a": 1, "2": null, "true": 1.0} "</b>\u0001 🙂" "\ud83d\ude42" [1, 2] 1e+16)~"},
    {R"~({{ t | trim }}|{{ 'xax' | trim('x') }}|{{ l | join }}|{{ l | join('-') }}|{{ m | join(',', attribute='role') }}|{{ 'abc' | join('.') }})~",
     R"~(Grüße, Wörld!|a|312|3-1-2|user,tool,user|a.b.c)~"},
    {R"~({{ l | length }} {{ t | length }} {{ d | count }} {{ missing | length }} {{ l | first }} {{ l | last }} {{ 'abc' | first }} {{ 'abc' | last }} {{ [] | first }} {{ l | list }} {{ 'ab' | list }})~",
     R"~(3 17 3 0 3 2 a c  [3, 1, 2] ['a', 'b'])~"},
    {R"~({{ m | map(attribute='role') | list }} {{ m | map(attribute='x', default='?') | list }} {{ ['a', 'b'] | map('upper') | join }} {{ s.split(',') | select | list }} {{ l | select('odd') | list }} {{ l | reject('equalto', 3) | list }} {{ l | select('gt', 1) | list }})~",
     R"~(['user', 'tool', 'user'] ['?', '?', '?'] AB ['a', 'b', 'c'] [3, 1] [1, 2] [3, 2])~"},
    {R"~({{ m | selectattr('role', 'equalto', 'user') | map(attribute='n') | list }} {{ m | rejectattr('role', 'eq', 'user') | list }} {{ m | selectattr('n') | list | length }} {{ m | selectattr('zz', 'defined') | list }})~",
     R"~([2, 3] [{'role': 'tool', 'n': 1}] 3 [])~"},
    {R"~({{ l | sort }} {{ l | sort(reverse=true) }} {{ ['b', 'A', 'a'] | sort }} {{ ['b', 'A', 'a'] | sort(case_sensitive=true) }} {{ m | sort(attribute='n') | map(attribute='n') | list }} {{ m | sort(attribute='role,n') | map(attribute='n') | list }})~", R"~([1, 2, 3] [3, 2, 1] ['A', 'a', 'b'] ['A', 'a', 'b'] [1, 2, 3] [1, 2, 3])~"},
    {R"~({{ d | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ {'b': 1, 'a': 2} | dictsort(reverse=true) }} {{ d | items | list | length }})~",
     R"~([('a', [True, None, 1.5]), ('b', 1), ('Ü', 'x"y')] [('A', 2), ('b', 1)] [('b', 1), ('a', 2)] [('b', 1), ('a', 2)] 3)~"},
    {R"~({{ ['a', 'A', 'b'] | unique | list }} {{ m | unique(attribute='role') | map(attribute='n') | list }} {{ l | sum }} {{ m | sum(attribute='n') }} {{ l | min }} {{ l | max }} {{ l | reverse | list }} {{ 'abc' | reverse }})~",
     R"~(['a', 'b'] [2, 1] 6 6 1 3 [2, 1, 3] cba)~"},
    {R"~({{ [1, 2, 3] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 0) | list }} {% for k, g in m | groupby('role') %}{{ k }}:{{ g | length }} {% endfor %})~",
     R"~([[1, 2], [3]] [[1, 2], [3, 0]] tool:1 user:2 )~"},
    {R"~({{ '5' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.9' | int }} {{ '1.5' | float }} {{ 'q' | float }} {{ -3 | abs }} {{ 2.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 1 | string }} {{ 'ff' | int(0, 16) }} {{ true | int }})~",
     R"~(5 0 7 3 3 1.5 0.0 3 2.0 2.57 3.0 1 255 1)~"},
    {R"~({{ missing | default('d') }} {{ none | default('d') }} {{ none | default('d', true) }} {{ '' | default('d', boolean=true) }} {{ missing | d }} {{ missing }})~",
     R"~(d None d d  )~"},
    {R"~({{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb\n' | indent('> ') }})~",
     "a\n    b\n\n    c|  a\n  b|a\n  \n  b|a\n> b\n"},
    {R"~({{ h | e }} {{ h | safe }} {{ ('<i>' | safe) + h }} {{ h + ('<i>' | safe) }} {{ ('<i>' | safe) ~ h }} {{ h | e | e }} {{ h | escape | upper }})~",
     R"~(&lt;b&gt;&amp;&#34;&#39; <b>&"' <i>&lt;b&gt;&amp;&#34;&#39; &lt;b&gt;&amp;&#34;&#39;<i> <i><b>&"' &lt;b&gt;&amp;&#34;&#39; &LT;B&GT;&AMP;&#34;&#39;)~"},
    {R"~({{ 'a b c' | wordcount }} {{ 'x' | center(3) }}| {{ 'Ab' | upper }} {{ 'Ab' | lower }} {{ 'aB' | capitalize }} {{ 'aab' | replace('a', 'x') }} {{ 'aab' | replace('a', 'x', 1) }} {{ 5 | replace(5, 6) }})~",
     R"~(3  x | AB ab Ab xxb xab 6)~"},
    {R"~({{ x is defined }} {{ d is defined }} {{ x is undefined }} {{ n is none }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ true is number }} {{ 's' is string }} {{ d is mapping }} {{ l is sequence }} {{ d is sequence }} {{ 's' is iterable }} {{ 1 is iterable }} {{ true is boolean }} {{ 1 is boolean }})~",
     R"~(False True True True True False True True True True True True True False True False)~"},
    {R"~({{ 3 is odd }} {{ 3 is even }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 1 is lt 2 }} {{ 1 is in [1] }} {{ 1 is not in [1] }} {{ none is sameas none }} {{ true is true }} {{ 0 is false }} {{ 'AB' is upper }} {{ range is callable }} {{ 'upper' is filter }})~",
     R"~(True False True False True False True True False True True False True True True)~"},
    {R"~({{ 1 if true else 2 }} {{ 1 if false }} {{ 1 if false else 2 if false else 3 }} {{ 'a' if d.b is defined and d.b == 1 else 'b' }} {{ not true }} {{ (1 if true) + 1 }})~",
     R"~(1  3 a False 2)~"},
    {R"~({{ range(3) | list }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }} {{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ namespace(a=1).a }})~",
     R"~([0, 1, 2] [1, 3, 5] [3, 2, 1] {'a': 1, 'b': 2} {'x': 1, 'y': 2} 1)~"},
    {R"~({% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('o', 'e') }}{{ loop.changed(x > 1) }}{{ loop.depth }};{% endfor %})~",
     R"~(1032TrueFalse31oTrue1;2121FalseFalse332eTrue1;3210FalseTrue31oTrue1;)~"},
    {R"~({% for x in l if x > 1 %}{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}{% for x in l if x > 9 %}{% else %}none{% endfor %})~",
     R"~(3/2 2/2 emptynone)~"},
    {R"~({% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %})~",
     R"~(32)~"},
    {R"~({% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for c in 'añb' %}{{ c }}.{% endfor %}{% for k in d %}{{ k }}{% endfor %})~", R"~(1234123a.ñ.b.baÜ)~"},
    {R"~({% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% if true %}{% set x = 9 %}{% endif %}{{ x }})~",
     R"~(12121129)~"},
    {R"~({% set ns = namespace(n=0, l=[]) %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }} {{ ns.l }} {% set ns.z = ns %}{{ ns.z.z.n }})~",
     R"~(6 [3, 1, 2] 6)~"},
    {R"~({% set x %}a{{ l[0] }}b{% endset %}{{ x }}{% set y | upper %}abc{% endset %}{{ y }}{% filter upper | replace('A', 'z') %}a{{ 'b' }}{% endfilter %}{% with q = 5, r = 6 %}{{ q }}{{ r }}{% endwith %}{{ q }})~",
     R"~(a3bABCzB56)~"},
    {R"~({% macro f(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f(b=1, a=4) }}{{ f() }}{{ f.name }})~",
     R"~([1,2,1][1,2,3][4,1,4][,2,]f)~"},
    {R"~({% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}{% macro w() %}<{{ caller('x') }}>{% endmacro %}{% call(v) w() %}v={{ v }}{% endcall %})~",
     R"~(3210<v=x>)~"},
    {R"~({% set g = 1 %}{% macro f() %}{{ g }}{{ late }}{% endmacro %}{% set late = 2 %}{{ f() }}{% for i in [5] %}{% macro h() %}{{ i }}{% endmacro %}{{ h() }}{% endfor %})~",
     R"~(125)~"},
    {R"~({% for x in [1, [2, [3]]] recursive %}{{ x if x is number else '(' ~ loop(x) ~ ')' }}{{ loop.depth }}{% endfor %})~",
     R"~(11(22(33)2)1)~"},
    {R"~({% set j = joiner('|') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }})~",
     R"~(3|1|2abab)~"},
    {R"~({% raw %}{{ not }} {% x %}{% endraw %}{# c #}|{%- raw -%} a {%- endraw -%} |{{ '{{' }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }})~",
     R"~({{ not }} {% x %}|a|{{%}1)~"},
    {R"~({{ 'a' 'b' }}{{ "\x41\u00e9\n\t\\\'\"\q\101" }}{{ '\U0001F642' }}{{- ' x ' -}}  y  {{- 1 }} {{+ 2 }})~",
     "abAé\n\t\\'\"\\qA🙂 x y1 2"},
    {R"~({{ (l | select('gt', 9)) is defined }}{{ 1 if l | select('gt', 9) else 2 }}{% set g = l | map('string') %}{{ g | list }}{{ g | list }}{{ d.items() | length }}{{ 1 if {}.items() else 2 }})~",
     R"~(True1['3', '1', '2'][]32)~"},
    {R"~({{ missing == none }} {{ missing == other }} {{ missing ~ 'x' }} {{ 'a' in missing }} {% for x in missing %}{% else %}z{% endfor %} {{ missing is string }} {{ missing | list }} {{ missing | join }} {{ [missing] }})~",
     R"~(False True x False z False []  [Undefined])~"},
    {R"~({{ none | string }} {{ true | string | lower }} {{ [] == [] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ '%s' % ([1],) }} {{ [[1, 2], [3]] | map('length') | list }} {{ ['x', 'y'] | map('replace', 'x', 'z') | list }})~",
     R"~(None true True False True [1] [2, 1] ['z', 'y'])~"},
    {R"~({{ 'abc'['upper']() }} {{ {'items': 5}.items is callable }} {{ {'items': 5}['items'] }} {{ {'get': 1}.get('get') }})~",
     R"~(ABC True 5 1)~"},
    {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
    {R"~(a  {%- if true -%}  b  {%- endif %}  c)~", R"~(ab  c)~"},
    {"  {%+ if true %}x{% endif +%}\ny", "  x\ny"},
    {"{# c #}\nx {# y #}\nz", R"~(x z)~"},
    {"  {# c #}\nx", R"~(x)~"},
    {"x\n\n", "x\n"},
    {"{{ 1 }}\n{{ 2 }}\n", "1\n2"},
    {"{% set x = 1 %}\n\n  {{ x }}", "\n  1"},
    {"a\r\nb\rc\r\n", "a\nb\nc"},
    {"a {%- set x = 1 +%}\n b", "a\n b"},
    {"{%- if true %}\n\n x{% endif -%}\n\n y", "\n xy"},
    {"\t {% if 1 %}q{% endif %} \t{% if 1 %}r{% endif %}", "q \tr"},
    {"{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\nend", "  1\n  2\nend"},
    {"{% raw %}\n x{% endraw %}\n y", "\n x y"},
    {"  {%- raw -%} \n z {%- endraw %}\nw", R"~(zw)~"},
    {R"~({{ '}}' }}{{ "%}" }}{# {{ #})~", R"~(}}%})~"},
    {"  {{ 1 -}}  \n x", R"~(  1x)~"},
    {R"~(é  {% if 1 %}  ü{% endif %})~", R"~(é    ü)~"},
};

}  // namespace

TEST_CASE("the language is Jinja2's") {
  auto variables = parse_json(kVariables);
  REQUIRE(variables.ok());
  for (const Example& example : kExamples) {
    INFO(example.source);
    CHECK(render_text(example.source, *variables) == example.expected);
  }
}

TEST_CASE("generation blocks render their body") {
  CHECK(render_text("a{% generation %}b{% set x = 1 %}{% endgeneration %}{{ x }}c",
                    Json(JsonObject{})) == "abc");
}

TEST_CASE("strftime_now writes the time it is given, in UTC") {
  auto at = [](std::int64_t now, const std::string& format) {
    auto parsed = text::ChatTemplate::parse("{{ strftime_now('" + format + "') }}");
    REQUIRE(parsed.ok());
    auto rendered = parsed->render(Json(JsonObject{}), now);
    return rendered ? joined(*rendered) : rendered.status().message();
  };
  CHECK(at(kGoldenNow, "%d %b %Y") == "09 Mar 2025");
  CHECK(at(kGoldenNow, "%Y-%m-%d %H:%M:%S %A %B %a %j %y %I %p") ==
        "2025-03-09 08:05:07 Sunday March Sun 068 25 08 AM");
  CHECK(at(kGoldenNow, "%-d/%-m %e %F %T %% %w %u %U %W") ==
        "9/3  9 2025-03-09 08:05:07 % 0 7 10 09");
  CHECK(at(951782400, "%F %j") == "2000-02-29 060");  // the leap day of a century
  CHECK(at(-1, "%F %T %a") == "1969-12-31 23:59:59 Wed");
  CHECK(at(253402300799, "%F") == "9999-12-31");
  CHECK(at(kGoldenNow, "%Q").find("unknown directive '%Q'") != std::string::npos);
  CHECK(at(INT64_MAX, "%Y").find("outside the years") != std::string::npos);
}

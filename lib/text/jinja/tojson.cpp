#include "text/jinja/tojson.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/format_value.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

struct Style {
  bool ascii = false;
  bool sort_keys = false;
  bool lines = false;  // one element a line
  TracedText indent;
  TracedText item_separator{", ", Trust::untrusted};
  TracedText key_separator{": ", Trust::untrusted};
};

class Writer {
 public:
  Writer(Runtime& runtime, const Style& style) : runtime_(runtime), style_(style) {}

  void write(const Value& value) {
    Runtime::Depth depth(runtime_);
    runtime_.step();
    runtime_.reserve_memory(2 * out_.size());
    if (auto text = value.text()) return string(*text);
    if (auto boolean = value.get_if<bool>()) return punctuation(*boolean ? "true" : "false");
    if (value.is_none()) return punctuation("null");
    if (auto integer = value.get_if<std::int64_t>()) return punctuation(std::to_string(*integer));
    if (auto real = value.get_if<double>()) return punctuation(real_text(*real));
    if (auto list = value.list(); list && list->kind != Sequence::view) return array(*list);
    if (auto dict = value.dict()) return object(*dict);
    fail_value("Object of type {} is not JSON serializable", type_name(value));
  }

  TracedText take() { return std::move(out_); }

 private:
  void punctuation(std::string_view text) { out_.append(text, Trust::untrusted); }

  static std::string real_text(double real) {
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return format_real(real);
  }

  void new_line(int level) {
    if (!style_.lines) return;
    punctuation("\n");
    runtime_.reserve_memory(out_.size() + style_.indent.size() * static_cast<std::size_t>(level));
    runtime_.charge_bytes(style_.indent.size() * static_cast<std::size_t>(level));
    for (int i = 0; i < level; ++i) out_.append(style_.indent);
  }

  void array(const ListObject& list) {
    if (list.items.empty()) return punctuation("[]");
    punctuation("[");
    ++level_;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level_);
      write(list.items[i]);
    }
    new_line(--level_);
    punctuation("]");
  }

  void object(const DictObject& dict) {
    if (dict.members.empty()) return punctuation("{}");
    std::vector<const std::pair<Value, Value>*> members;
    for (const auto& member : dict.members) members.push_back(&member);
    if (style_.sort_keys) {
      std::stable_sort(members.begin(), members.end(), [&](auto* a, auto* b) {
        return compare(runtime_, a->first, b->first, "<") < 0;
      });
    }
    punctuation("{");
    ++level_;
    bool first = true;
    for (const auto* member : members) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      new_line(level_);
      key(member->first);
      out_.append(style_.key_separator);
      write(member->second);
    }
    new_line(--level_);
    punctuation("}");
  }

  void key(const Value& value) {
    if (auto text = value.text()) return string(*text);
    bool scalar = is_number(value) || value.is_none();
    if (!scalar) {
      fail_value("keys must be str, int, float, bool or None, not {}", type_name(value));
    }
    punctuation("\"");
    write(value);
    punctuation("\"");
  }

  void string(const TracedText& text) {
    runtime_.charge_bytes(2 * text.size());
    runtime_.reserve_memory(out_.size() + text.size());
    punctuation("\"");
    auto view = text.view();
    std::size_t plain = 0;  // start of what needs no escape
    for (std::size_t at = 0; at < view.size();) {
      Character c = character_at(view, at);
      bool special =
          c.code < 0x20 || c.code == '"' || c.code == '\\' || (style_.ascii && c.code > 0x7F);
      if (special) {
        out_.append_slice(text, plain, at - plain);
        out_.append(escape(c.code), text.trust_at(at));
        plain = at + c.length;
      }
      at += c.length;
    }
    out_.append_slice(text, plain, view.size() - plain);
    punctuation("\"");
  }

  static std::string escape(char32_t code) {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    auto value = static_cast<std::uint32_t>(code);
    if (value < 0x10000) return fmt::format("\\u{:04x}", value);
    value -= 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (value >> 10), 0xDC00 + (value & 0x3FF));
  }

  Runtime& runtime_;
  const Style& style_;
  TracedText out_;
  int level_ = 0;
};

Style read_style(Runtime& runtime, const Arguments& arguments) {
  Style style;
  style.ascii = truth_or(arguments, 0, "ensure_ascii", false);
  if (const Value* indent = find_given(arguments, 1, "indent")) {
    style.lines = true;
    style.item_separator = TracedText(",", Trust::untrusted);
    if (auto text = indent->text()) {
      style.indent = *text;
    } else {
      std::int64_t width = std::max<std::int64_t>(integer_or(arguments, 1, "indent", 0), 0);
      runtime.reserve_memory(static_cast<std::size_t>(width));
      style.indent =
          TracedText(std::string(static_cast<std::size_t>(width), ' '), Trust::untrusted);
    }
  }
  if (const Value* separators = find_given(arguments, 2, "separators")) {
    auto list = separators->list();
    if (!list || list->items.size() != 2 || !list->items[0].text() || !list->items[1].text()) {
      fail_value("tojson: separators must be two strings");
    }
    style.item_separator = *list->items[0].text();
    style.key_separator = *list->items[1].text();
  }
  style.sort_keys = truth_or(arguments, 3, "sort_keys", false);
  return style;
}

}  // namespace

Value to_json(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.allow_at_most(4);
  Style style = read_style(runtime, arguments);
  Writer writer(runtime, style);
  writer.write(value);
  return runtime.text(writer.take());
}

}  // namespace quire::text::jinja

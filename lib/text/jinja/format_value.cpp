#include "text/jinja/format_value.h"

#include <charconv>
#include <cmath>

#include "text/jinja/unicode.h"

namespace quire::text::jinja {

std::string_view type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_undefined()) return "Undefined";
  if (value.is<bool>()) return "bool";
  if (value.is<std::int64_t>()) return "int";
  if (value.is<double>()) return "float";
  if (value.text()) return "str";
  if (auto list = value.list()) {
    return list->kind == Sequence::list    ? "list"
           : list->kind == Sequence::tuple ? "tuple"
                                           : "dict_view";
  }
  if (value.dict()) return "dict";
  if (value.pointer<GeneratorObject>()) return "generator";
  if (value.pointer<NamespaceObject>()) return "Namespace";
  if (value.pointer<MacroObject>()) return "Macro";
  if (value.pointer<LoopObject>()) return "LoopContext";
  return "builtin_function_or_method";
}

std::string format_real(double real) {
  if (std::isnan(real)) return "nan";
  if (std::isinf(real)) return real < 0 ? "-inf" : "inf";
  // Python writes an exponent outside [1e-4, 1e16).
  double magnitude = std::fabs(real);
  bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), real,
                           plain ? std::chars_format::fixed : std::chars_format::scientific)
                 .ptr;
  std::string text(buffer, end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

namespace {

void append_quoted(Runtime& runtime, TracedText& out, const TracedText& text) {
  runtime.charge_bytes(text.size());
  auto view = text.view();
  char quote = view.find('\'') != view.npos && view.find('"') == view.npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1), Trust::untrusted);
  for (std::size_t at = 0; at < view.size();) {
    Character c = character_at(view, at);
    Trust trust = text.trust_at(at);
    if (c.code == '\\' || c.code == static_cast<char32_t>(quote)) {
      out.append("\\", trust);
      out.append(view.substr(at, 1), trust);
    } else if (c.code == '\n') {
      out.append("\\n", trust);
    } else if (c.code == '\r') {
      out.append("\\r", trust);
    } else if (c.code == '\t') {
      out.append("\\t", trust);
    } else if (c.code < 0x20 || (c.code >= 0x7F && c.code <= 0xA0) || c.code == 0xAD) {
      out.append(fmt::format("\\x{:02x}", static_cast<unsigned>(c.code)), trust);
    } else {
      out.append_slice(text, at, c.length);
    }
    at += c.length;
  }
  out.append(std::string_view(&quote, 1), Trust::untrusted);
}

void append_list(Runtime& runtime, TracedText& out, const ListObject& list) {
  bool tuple = list.kind == Sequence::tuple;
  out.append(tuple ? "(" : "[", Trust::untrusted);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ", Trust::untrusted);
    append_repr(runtime, out, list.items[i]);
  }
  if (tuple && list.items.size() == 1) out.append(",", Trust::untrusted);
  out.append(tuple ? ")" : "]", Trust::untrusted);
}

void append_members(Runtime& runtime, TracedText& out, const DictObject& dict) {
  out.append("{", Trust::untrusted);
  bool first = true;
  for (const auto& [key, value] : dict.members) {
    if (!first) out.append(", ", Trust::untrusted);
    first = false;
    append_repr(runtime, out, key);
    out.append(": ", Trust::untrusted);
    append_repr(runtime, out, value);
  }
  out.append("}", Trust::untrusted);
}

void append_namespace(Runtime& runtime, TracedText& out, const NamespaceObject& names) {
  out.append("<Namespace {", Trust::untrusted);
  bool first = true;
  for (const auto& [name, value] : names.members) {
    out.append(first ? "'" : ", '", Trust::untrusted);
    first = false;
    out.append(name, Trust::untrusted);
    out.append("': ", Trust::untrusted);
    append_repr(runtime, out, value);
  }
  out.append("}>", Trust::untrusted);
}

}  // namespace

void append_repr(Runtime& runtime, TracedText& out, const Value& value) {
  Runtime::Depth depth(runtime);
  runtime.step();
  runtime.reserve_memory(out.size());
  if (auto text = value.text()) return append_quoted(runtime, out, *text);
  if (auto list = value.list()) return append_list(runtime, out, *list);
  if (auto dict = value.dict()) return append_members(runtime, out, *dict);
  if (auto names = value.pointer<NamespaceObject>()) return append_namespace(runtime, out, *names);
  if (value.is_undefined()) return out.append("Undefined", Trust::trusted);
  append_text(runtime, out, value);
}

void append_text(Runtime& runtime, TracedText& out, const Value& value) {
  if (auto text = value.text()) {
    runtime.charge_bytes(text->size());
    runtime.reserve_memory(out.size() + text->size());
    return out.append(*text);
  }
  if (value.is_undefined()) return;
  if (value.is_none()) return out.append("None", Trust::trusted);
  if (auto boolean = value.get_if<bool>()) {
    return out.append(*boolean ? "True" : "False", Trust::trusted);
  }
  if (auto integer = value.get_if<std::int64_t>()) {
    return out.append(std::to_string(*integer), Trust::trusted);
  }
  if (auto real = value.get_if<double>()) return out.append(format_real(*real), Trust::trusted);
  if (value.list() || value.dict() || value.pointer<NamespaceObject>()) {
    return append_repr(runtime, out, value);
  }
  if (auto macro = value.pointer<MacroObject>(); macro && macro->definition) {
    return out.append("<Macro>", Trust::trusted);
  }
  if (auto state = value.pointer<StatefulObject>()) {
    // A joiner is written by calling it; as text it has only its type.
    return out.append(state->kind == StatefulObject::Kind::joiner ? "<Joiner>" : "<Cycler>",
                      Trust::trusted);
  }
  out.append(fmt::format("<{}>", type_name(value)), Trust::trusted);
}

TracedText to_text(Runtime& runtime, const Value& value) {
  TracedText result;
  append_text(runtime, result, value);
  return result;
}

}  // namespace quire::text::jinja

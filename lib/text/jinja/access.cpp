#include "text/jinja/access.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/loop_methods.h"
#include "text/jinja/mapping.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::text::jinja {

namespace {

std::optional<Value> find_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (auto loop = object.pointer<LoopObject>()) return loop_attribute(runtime, loop, name);
  if (auto names = object.pointer<NamespaceObject>()) {
    for (const auto& [member, value] : names->members) {
      if (member == name) return value;
    }
    return std::nullopt;
  }
  if (auto macro = object.pointer<MacroObject>(); macro && name == "name") {
    return macro_name(runtime, *macro);
  }
  if (auto state = object.pointer<StatefulObject>()) return cycler_attribute(runtime, state, name);
  Method method = object.text()   ? find_text_method(name)
                  : object.dict() ? find_dict_method(name)
                  : object.list() ? find_list_method(name)
                                  : nullptr;
  if (!method) return std::nullopt;
  return runtime.method(object, name, method);
}

// The element at a Python index, negative from the end.
std::optional<std::size_t> element_index(std::int64_t index, std::size_t size) {
  if (index < 0) index += static_cast<std::int64_t>(size);
  if (index < 0 || index >= static_cast<std::int64_t>(size)) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<Value> character(Runtime& runtime, const TracedText& text, std::int64_t index) {
  runtime.charge_bytes(text.size());
  auto at = element_index(index, index < 0 ? count_characters(text.view()) : text.size());
  if (!at) return std::nullopt;
  std::size_t offset = byte_offset(text.view(), *at);
  if (offset >= text.size()) return std::nullopt;
  return runtime.text(text.slice(offset, character_at(text.view(), offset).length));
}

std::optional<Value> find_item(Runtime& runtime, const Value& object, const Value& key) {
  if (auto dict = object.dict()) {
    const Value* value = find_member(runtime, *dict, key);
    return value ? std::optional(*value) : std::nullopt;
  }
  auto index = as_integer(key);
  if (!index) return std::nullopt;
  if (auto text = object.text()) return character(runtime, *text, *index);
  if (auto list = object.list(); list && list->kind != Sequence::view) {
    if (auto at = element_index(*index, list->items.size())) return list->items[*at];
  }
  return std::nullopt;
}

void refuse_undefined(const Value& object) {
  if (auto undefined = object.get_if<Undefined>()) fail_value("{}", (*undefined->reason).view());
}

Value missing(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined(
      fmt::format("'{} object' has no attribute '{}'", type_name(object), name.substr(0, 200)));
}

}  // namespace

Value attribute(Runtime& runtime, const Value& object, std::string_view name) {
  refuse_undefined(object);
  if (auto found = find_attribute(runtime, object, name)) return *found;
  if (auto dict = object.dict()) {
    if (const Value* value = find_member(*dict, name)) return *value;
  }
  return missing(runtime, object, name);
}

Value item(Runtime& runtime, const Value& object, const Value& key) {
  refuse_undefined(object);
  if (auto found = find_item(runtime, object, key)) return *found;
  if (auto name = key.text()) {
    if (auto found = find_attribute(runtime, object, name->view())) return *found;
    return missing(runtime, object, name->view());
  }
  auto index = as_integer(key);
  return runtime.undefined(
      index ? fmt::format("{} object has no element {}", type_name(object), *index)
            : fmt::format("{} object has no such element", type_name(object)));
}

Value attribute_path(Runtime& runtime, const Value& object, const Value& path) {
  auto text = path.text();
  if (!text) return item(runtime, object, path);
  Value current = object;
  std::string_view rest = text->view();
  while (true) {
    std::size_t dot = rest.find('.');
    std::string_view part = rest.substr(0, dot);
    std::int64_t index = 0;
    auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    bool number =
        !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    current = number ? item(runtime, current, index)
                     : item(runtime, current, runtime.text(std::string(part)));
    if (dot == rest.npos) return current;
    rest.remove_prefix(dot + 1);
  }
}

namespace {

std::optional<std::int64_t> bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (auto integer = as_integer(value)) return integer;
  if (auto undefined = value.get_if<Undefined>()) fail_value("{}", (*undefined->reason).view());
  fail_value("slice indices must be integers or None");
}

// Python's slice.indices(): the elements are start, start + step, ... before stop.
struct SliceRange {
  std::int64_t start, stop, step;
};
SliceRange resolve(const SliceBounds& bounds, std::int64_t size) {
  std::int64_t step = bound(bounds.step).value_or(1);
  if (step == 0) fail_value("slice step cannot be zero");
  step = std::clamp<std::int64_t>(step, -(size + 1), size + 1);
  std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto clamped = [&](std::optional<std::int64_t> at, std::int64_t absent) {
    if (!at) return absent;
    return std::clamp(*at < 0 ? *at + size : *at, low, high);
  };
  auto start = bound(bounds.start), stop = bound(bounds.stop);
  return {clamped(start, step > 0 ? low : high), clamped(stop, step > 0 ? high : low), step};
}

bool inside(const SliceRange& range, std::int64_t at) {
  return range.step > 0 ? at < range.stop : at > range.stop;
}

Value slice_text(Runtime& runtime, const TracedText& text, const SliceBounds& bounds) {
  runtime.charge_bytes(2 * text.size());
  auto view = text.view();
  SliceRange range = resolve(bounds, static_cast<std::int64_t>(count_characters(view)));
  if (range.step == 1) {
    if (range.start >= range.stop) return runtime.text("");
    std::size_t start = byte_offset(view, static_cast<std::size_t>(range.start));
    std::size_t length =
        byte_offset(view.substr(start), static_cast<std::size_t>(range.stop - range.start));
    return runtime.text(text.slice(start, length));
  }
  runtime.reserve_memory((text.size() + 1) * sizeof(std::size_t));
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < view.size(); at += character_at(view, at).length) {
    offsets.push_back(at);
  }
  TracedText result;
  for (std::int64_t at = range.start; inside(range, at); at += range.step) {
    std::size_t offset = offsets[static_cast<std::size_t>(at)];
    result.append_slice(text, offset, character_at(view, offset).length);
  }
  return runtime.text(std::move(result));
}

}  // namespace

Value slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  refuse_undefined(object);
  if (auto text = object.text()) return slice_text(runtime, *text, bounds);
  auto list = object.list();
  if (!list || list->kind == Sequence::view) {
    return runtime.undefined(fmt::format("{} object cannot be sliced", type_name(object)));
  }
  SliceRange range = resolve(bounds, static_cast<std::int64_t>(list->items.size()));
  Values items;
  for (std::int64_t at = range.start; inside(range, at); at += range.step) {
    items.push_back(list->items[static_cast<std::size_t>(at)]);
  }
  return runtime.list(std::move(items), list->kind);
}

Values iterate(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return {};
  if (auto list = value.list()) {
    runtime.reserve_values(list->items.size());
    return list->items;
  }
  if (auto generator = value.pointer<GeneratorObject>()) {
    if (std::exchange(generator->consumed, true)) return {};
    return std::exchange(generator->items, {});
  }
  Values items;
  if (auto dict = value.dict()) {
    runtime.reserve_values(dict->members.size());
    for (const auto& [key, member] : dict->members) items.push_back(key);
    return items;
  }
  if (auto text = value.text()) {
    auto view = text->view();
    runtime.charge_steps(static_cast<std::int64_t>(view.size()));
    for (std::size_t at = 0; at < view.size();) {
      std::size_t size = character_at(view, at).length;
      items.push_back(runtime.text(text->slice(at, size)));
      at += size;
    }
    return items;
  }
  fail_value("'{}' object is not iterable", type_name(value));
}

std::optional<std::size_t> length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (auto text = value.text()) return count_characters(text->view());
  if (auto list = value.list()) return list->items.size();
  if (auto dict = value.dict()) return dict->members.size();
  if (auto loop = value.pointer<LoopObject>()) return loop->items.size();
  return std::nullopt;
}

}  // namespace quire::text::jinja

#include "text/jinja/functions.h"

#include "text/jinja/access.h"
#include "text/jinja/format_value.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/strftime.h"

namespace quire::text::jinja {

namespace {

Value range(Runtime& runtime, Arguments& arguments) {
  arguments.allow_at_most(3);
  bool one = arguments.positional.size() == 1;
  arguments.require(0, "stop");
  std::int64_t first = integer_or(arguments, 0, "start", 0);
  std::int64_t start = one ? 0 : first;
  std::int64_t stop = one ? first : integer_or(arguments, 1, "stop", 0);
  std::int64_t step = integer_or(arguments, 2, "step", 1);
  if (step == 0) fail_value("range() arg 3 must not be zero");
  std::uint64_t count = 0;
  // Unsigned differences cannot overflow.
  auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(stop);
  if (step > 0 && start < stop) count = (to - from - 1) / static_cast<std::uint64_t>(step) + 1;
  if (step < 0 && start > stop)
    count = (from - to - 1) / (0 - static_cast<std::uint64_t>(step)) + 1;
  runtime.reserve_values(count > SIZE_MAX / 64 ? SIZE_MAX / 64 : static_cast<std::size_t>(count));
  Values items;
  for (std::uint64_t i = 0; i < count; ++i) {
    items.push_back(static_cast<std::int64_t>(from + i * static_cast<std::uint64_t>(step)));
  }
  return runtime.list(std::move(items));
}

Value make_namespace(Runtime& runtime, Arguments& arguments) {
  NamespaceObject* names = runtime.make_namespace();
  for (const Value& given : arguments.positional) {
    if (!given.dict()) fail_value("namespace() takes a dict, not {}", type_name(given));
    for (const auto& [key, value] : given.dict()->members) {
      runtime.set_member(*names, to_text(runtime, key).view(), value);
    }
  }
  for (const auto& [name, value] : arguments.named) runtime.set_member(*names, name, value);
  return names;
}

Value make_dict(Runtime& runtime, Arguments& arguments) {
  arguments.allow_at_most(SIZE_MAX);
  std::vector<std::pair<Value, Value>> members;
  for (const Value& given : arguments.positional) {
    if (auto dict = given.dict()) {
      members.insert(members.end(), dict->members.begin(), dict->members.end());
      continue;
    }
    for (const Value& entry : iterate(runtime, given)) {
      Values pair = iterate(runtime, entry);
      if (pair.size() != 2) fail_value("dict() takes pairs, found {} elements", pair.size());
      members.emplace_back(pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    members.emplace_back(runtime.text(std::string(name)), value);
  }
  return runtime.dict(std::move(members));
}

Value cycler(Runtime& runtime, Arguments& arguments) {
  if (arguments.positional.empty()) fail_value("at least one item has to be provided");
  return runtime.stateful(StatefulObject::Kind::cycler, arguments.positional);
}

Value joiner(Runtime& runtime, Arguments& arguments) {
  arguments.allow_at_most(1);
  const Value* separator = arguments.find(0, "sep");
  return runtime.stateful(StatefulObject::Kind::joiner,
                          {separator ? *separator : runtime.text(", ")});
}

Value raise_exception(Runtime& runtime, Arguments& arguments) {
  TracedText message = to_text(runtime, arguments.require(0, "message"));
  throw Failure{StatusCode::invalid_argument, std::string(message.view())};
}

Value strftime_now(Runtime& runtime, Arguments& arguments) {
  arguments.allow_at_most(1);
  return runtime.text(format_time(runtime, require_text(arguments, 0, "format")));
}

constexpr GlobalFunction kFunctions[] = {
    {"range", range},
    {"namespace", make_namespace},
    {"dict", make_dict},
    {"cycler", cycler},
    {"joiner", joiner},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

std::span<const GlobalFunction> global_functions() {
  return kFunctions;
}

}  // namespace quire::text::jinja

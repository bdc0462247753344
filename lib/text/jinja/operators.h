#pragma once

#include <cstdint>
#include <optional>

#include "text/jinja/runtime.h"

namespace quire::text::jinja {

// Python's operators on values. What Python refuses throws a Failure with Python's words.

bool truth(const Value& value);
bool equal(Runtime& runtime, const Value& a, const Value& b);
// Negative, zero or positive as a is before, equal to or after b in Python's order.
int compare(Runtime& runtime, const Value& a, const Value& b, const char* symbol);
bool contains(Runtime& runtime, const Value& container, const Value& item);

enum class BinaryOperator { add, subtract, multiply, divide, floor_divide, modulo, power };
Value binary(Runtime& runtime, BinaryOperator operation, const Value& a, const Value& b);
Value negate(const Value& value);
Value absolute(const Value& value);

bool is_number(const Value& value);  // bool included, as in Python
// The value of a bool or an int.
std::optional<std::int64_t> as_integer(const Value& value);
// The value of a bool, an int or a float.
std::optional<double> as_real(const Value& value);

}  // namespace quire::text::jinja

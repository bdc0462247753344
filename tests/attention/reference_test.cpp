#include "attention/reference.h"

#include <cmath>

#include "catch.h"

namespace quire::attention {
namespace {

// Two-element heads with scores that can be worked out by hand: keys 0, 1, 2 give ln 1, ln 2, ln 4.
struct Example {
  std::vector<double> query = {1, 0};
  std::vector<double> keys = {0, 9, std::log(2), 9, std::log(4), 9};
  std::vector<double> values = {7, 0, 0, 7, 7, 7};
  ReferenceQuery args;
  Example() {
    args.query = query;
    args.keys = keys;
    args.values = values;
    args.position = 2;
  }
};

TEST_CASE("the reference weighs values by the softmax of the scores") {
  Example e;
  const auto out = reference_attention(e.args);
  CHECK(out[0] == Approx(5.0));  // (7 * 1 + 7 * 4) / 7
  CHECK(out[1] == Approx(6.0));  // (7 * 2 + 7 * 4) / 7
}

TEST_CASE("the reference is causal and honours the window") {
  Example e;
  e.args.position = 1;
  CHECK(reference_attention(e.args)[0] == Approx(7.0 / 3));
  e.args.position = 2;
  e.args.window = 1;
  CHECK(reference_attention(e.args)[0] == Approx(7.0));
  e.args.window = 2;
  CHECK(reference_attention(e.args)[0] == Approx(28.0 / 6));
}

TEST_CASE("the reference counts sinks and caps scores") {
  Example e;
  const double sink = std::log(7);
  e.args.sink = &sink;
  CHECK(reference_attention(e.args)[0] == Approx(2.5));
  e.args.sink = nullptr;
  e.args.soft_cap = 1e-9;  // all scores become almost equal
  CHECK(reference_attention(e.args)[0] == Approx(14.0 / 3));
}

}  // namespace
}  // namespace quire::attention

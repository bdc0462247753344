#pragma once

namespace quire::testing {

// Whether an emulator runs the tests, up to two hundred times slower. Then they look less densely
// at what does not depend on the instruction set; natively nothing is left out.
inline constexpr bool kEmulated = QUIRE_TEST_EMULATED;

}  // namespace quire::testing

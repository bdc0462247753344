#pragma once

#include <functional>

#include <quire/status.h>

namespace quire::testing {

// What goes wrong on the devices that this program opens: faulty_device.cpp stands in for
// open_device.cpp and wraps the processor.
struct DeviceFaults {
  int allocation = 0;  // which of the coming allocations fails: 1 is the next, 0 none
  int operation = 0;   // the same for operations
  // What happens there: a Status, or an exception.
  std::function<Status()> failure;
  int operations = 0;  // run so far

  // Draws are awaited, as on a device that computes passes in their order while the host goes on.
  bool awaits = false;
  int computing = 0;  // so many looks at awaited draws find them not computed yet
  int lost = 0;       // which of the coming awaited draws are lost: 1 are the next, 0 none
  int ahead = 0;      // passes begun on top of another, so far
};
DeviceFaults& device_faults();

}  // namespace quire::testing

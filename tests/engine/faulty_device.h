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
};
DeviceFaults& device_faults();

}  // namespace quire::testing

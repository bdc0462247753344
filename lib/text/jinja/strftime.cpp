#include "text/jinja/strftime.h"

#include <array>

namespace quire::text::jinja {

namespace {

struct CivilTime {
  std::int64_t year;
  int month, day;  // from 1
  int hour, minute, second;
  int week_day;  // 0: Sunday
  int year_day;  // from 1
};

// Gregorian calendar from days since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date
// Algorithms", civil_from_days).
CivilTime civil_time(std::int64_t now) {
  std::int64_t days = now / 86400, second = now % 86400;
  if (second < 0) {
    second += 86400;
    --days;
  }
  std::int64_t shifted = days + 719468;
  std::int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  std::int64_t day_of_era = shifted - era * 146097;
  std::int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  std::int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  std::int64_t shifted_month = (5 * day_of_year + 2) / 153;  // 0: March
  CivilTime time{};
  time.day = static_cast<int>(day_of_year - (153 * shifted_month + 2) / 5 + 1);
  time.month = static_cast<int>(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
  time.year = year_of_era + era * 400 + (time.month <= 2);
  time.hour = static_cast<int>(second / 3600);
  time.minute = static_cast<int>(second / 60 % 60);
  time.second = static_cast<int>(second % 60);
  time.week_day = static_cast<int>(((days + 4) % 7 + 7) % 7);
  constexpr std::array<int, 12> kDaysBefore = {0,   31,  59,  90,  120, 151,
                                               181, 212, 243, 273, 304, 334};
  bool leap = time.year % 4 == 0 && (time.year % 100 != 0 || time.year % 400 == 0);
  time.year_day =
      kDaysBefore[static_cast<std::size_t>(time.month - 1)] + time.day + (leap && time.month > 2);
  return time;
}

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};

// `padding` is what stands between '%' and the directive: '-' (none), '_' (spaces) or 0.
std::string number(int value, int width, char padding) {
  if (padding == '-') return std::to_string(value);
  return padding == '_' ? fmt::format("{:{}}", value, width) : fmt::format("{:0{}}", value, width);
}

std::string directive(const CivilTime& t, char name, char padding, std::int64_t now) {
  std::string_view month = kMonths[static_cast<std::size_t>(t.month - 1)];
  std::string_view day = kDays[static_cast<std::size_t>(t.week_day)];
  int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  switch (name) {
    case 'Y':
      return std::to_string(t.year);
    case 'y':
      return number(static_cast<int>(((t.year % 100) + 100) % 100), 2, padding);
    case 'C':
      return number(static_cast<int>(t.year / 100), 2, padding);
    case 'm':
      return number(t.month, 2, padding);
    case 'd':
      return number(t.day, 2, padding);
    case 'e':
      return number(t.day, 2, padding ? padding : '_');
    case 'H':
      return number(t.hour, 2, padding);
    case 'k':
      return number(t.hour, 2, padding ? padding : '_');
    case 'I':
      return number(hour12, 2, padding);
    case 'l':
      return number(hour12, 2, padding ? padding : '_');
    case 'M':
      return number(t.minute, 2, padding);
    case 'S':
      return number(t.second, 2, padding);
    case 'f':
      return "000000";
    case 'j':
      return number(t.year_day, 3, padding);
    case 'B':
      return std::string(month);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'A':
      return std::string(day);
    case 'a':
      return std::string(day.substr(0, 3));
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'P':
      return t.hour < 12 ? "am" : "pm";
    case 'w':
      return std::to_string(t.week_day);
    case 'u':
      return std::to_string(t.week_day == 0 ? 7 : t.week_day);
    case 'U':
      return number((t.year_day + 6 - t.week_day) / 7, 2, padding);
    case 'W':
      return number((t.year_day + 6 - (t.week_day + 6) % 7) / 7, 2, padding);
    case 's':
      return std::to_string(now);
    case 'z':
    case 'Z':
      return "";  // the time carries no zone
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    case 'F':
      return fmt::format("{}-{:02}-{:02}", t.year, t.month, t.day);
    case 'D':
    case 'x':
      return fmt::format("{:02}/{:02}/{:02}", t.month, t.day, ((t.year % 100) + 100) % 100);
    case 'T':
    case 'X':
      return fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
    case 'R':
      return fmt::format("{:02}:{:02}", t.hour, t.minute);
    case 'r':
      return fmt::format("{:02}:{:02}:{:02} {}", hour12, t.minute, t.second,
                         t.hour < 12 ? "AM" : "PM");
    case 'c':
      return fmt::format("{} {} {:2} {:02}:{:02}:{:02} {}", day.substr(0, 3), month.substr(0, 3),
                         t.day, t.hour, t.minute, t.second, t.year);
    default:
      fail_value("strftime_now(): unknown directive '%{}'", name);
  }
}

}  // namespace

TracedText format_time(Runtime& runtime, const TracedText& format) {
  // Years outside these would not fit the calendar arithmetic.
  constexpr std::int64_t kMostSeconds = 253402300799;  // 9999-12-31T23:59:59
  std::int64_t now = runtime.now();
  if (now < -62135596800 || now > kMostSeconds) {
    fail_value("strftime_now(): the time {} is outside the years 1 to 9999", now);
  }
  runtime.charge_steps(static_cast<std::int64_t>(format.size()));
  CivilTime time = civil_time(now);
  std::string_view view = format.view();
  TracedText result;
  for (std::size_t at = 0; at < view.size(); ++at) {
    std::size_t start = at;
    if (view[at] != '%' || at + 1 == view.size()) {
      result.append_slice(format, at, 1);
      continue;
    }
    char padding = '\0';
    ++at;
    if ((view[at] == '-' || view[at] == '_') && at + 1 < view.size()) padding = view[at++];
    runtime.reserve_memory(result.size() + 64);
    result.append(directive(time, view[at], padding, now), format.trust_at(start));
  }
  return result;
}

}  // namespace quire::text::jinja

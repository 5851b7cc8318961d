// A test is TEST(name) { ... CHECK(...); }. A program runs the tests named on its command line, or all of them.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace check {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Register {
  Register(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw std::runtime_error(std::string(file) + ':' + std::to_string(line) + ": " + what);
}

template <typename Left, typename Right>
void equal(const Left& left, const Right& right, const char* text, const char* file, int line) {
  if (left == right) return;
  std::ostringstream what;
  what << text << ": " << +left << " against " << +right;
  fail(file, line, what.str());
}

/// Runs `action`, which must throw an Error whose message holds `text`; returns the message.
template <typename Error>
std::string thrown(const std::function<void()>& action, const std::string& text, const char* file, int line) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(text) == std::string::npos) fail(file, line, "message lacks '" + text + "': " + message);
    return message;
  }
  fail(file, line, "nothing was thrown");
}

inline int main(int count, char** arguments) {
  int failed = 0;
  for (const Test& test : tests()) {
    bool wanted = count < 2;
    for (int index = 1; index < count; ++index) wanted |= std::string(arguments[index]) == test.name;
    if (!wanted) continue;
    try {
      test.run();
      std::printf("ok %s\n", test.name);
    } catch (const std::exception& error) {
      std::printf("FAILED %s: %s\n", test.name, error.what());
      ++failed;
    }
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace check

#define TEST(name)                                           \
  static void name();                                        \
  static const check::Register register_##name(#name, name); \
  static void name()
#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
  } while (false)
#define CHECK_EQUAL(left, right) check::equal((left), (right), #left " == " #right, __FILE__, __LINE__)
#define CHECK_THROWS(Error, text, action) check::thrown<Error>([&] { action; }, text, __FILE__, __LINE__)

#include "app/commands/hash_password.h"

#include <string>

#include <termios.h>
#include <unistd.h>

#include "app/commands/exit_code.h"
#include "gateway/basic/password.h"

namespace sluice::app {
namespace {

// While this object exists, the terminal does not echo what is typed.
class Hidden {
 public:
  Hidden() : is_terminal_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!is_terminal_) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  Hidden(const Hidden&) = delete;
  ~Hidden() {
    if (is_terminal_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  [[nodiscard]] bool is_terminal() const { return is_terminal_; }

 private:
  termios before_{};
  const bool is_terminal_;
};

std::string read_line() {
  std::string line;
  for (int c = 0; (c = std::getchar()) != EOF && c != '\n';) line += static_cast<char>(c);
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

std::optional<std::string> read_password(std::FILE* errors) {
  std::string password;
  {
    const Hidden hidden;
    if (hidden.is_terminal()) std::fputs("Password: ", errors);
    password = read_line();
    if (hidden.is_terminal()) std::fputc('\n', errors);
  }
  for (const char c : password) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) continue;
    std::fputs("sluice: a password has no control characters\n", errors);
    return std::nullopt;
  }
  if (password.empty()) {
    std::fputs("sluice: there is no password on standard input\n", errors);
    return std::nullopt;
  }
  return password;
}

int print_hash(std::FILE* out, std::FILE* errors) {
  const auto password = read_password(errors);
  if (!password) return exit_failure;
  std::fprintf(out, "%s\n", gateway::basic::hash_password(*password).c_str());
  return exit_ok;
}

}  // namespace sluice::app

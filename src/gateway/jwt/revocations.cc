#include "gateway/jwt/revocations.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "gateway/jwt/date.h"

namespace sluice::gateway::jwt {
namespace {

std::unexpected<std::string> failed(const std::string& path) {
  return std::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// The content of a file.
struct Lines {
  std::vector<Revocation> entries;
  std::int64_t length = 0;  // bytes of the complete lines
};

std::expected<Lines, std::string> parse_lines(const std::string& path, std::string_view text) {
  Lines lines;
  for (std::size_t number = 1;; ++number) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return lines;  // the rest was not written completely; add() was never answered
    auto entry = Revocation::parse(text.substr(0, end));
    if (!entry) return std::unexpected(fmt::format("{}: line {} is not a revocation", path, number));
    lines.entries.push_back(std::move(*entry));
    lines.length += static_cast<std::int64_t>(end) + 1;
    text.remove_prefix(end + 1);
  }
}

std::string text_of(std::span<const Revocation> entries) {
  std::string lines;
  for (const Revocation& entry : entries) lines += entry.text() + "\n";
  return lines;
}

// Makes a new name in the folder of this file permanent.
bool sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  return synced;
}

bool has_effect(const Revocation& entry, double now_s) { return now_s < entry.until_s + Revocations::longest_leeway_s; }

// An id or a subject. Some issuers write them as numbers.
const http::Claim* name_in(const http::Claims& claims, std::string_view name) {
  using Kind = http::Claim::Kind;
  const http::Claim* const claim = claims.find(name);
  return claim != nullptr && (claim->kind == Kind::string || claim->kind == Kind::number) ? claim : nullptr;
}

}  // namespace

std::optional<Revocation> Revocation::parse(std::string_view line) {
  const auto members = http::Claims::parse(line);
  if (members == nullptr) return std::nullopt;
  Revocation entry;
  std::optional<double> before;
  std::optional<double> until;
  if (!read_date(*members, "before", before) || !read_date(*members, "exp", until)) return std::nullopt;
  const http::Claim* const id = name_in(*members, "jti");
  const http::Claim* const subject = name_in(*members, "sub");
  const http::Claim* const session = name_in(*members, "sid");
  if ((id != nullptr) + (subject != nullptr) + (session != nullptr) != 1) return std::nullopt;
  if ((subject != nullptr) != before.has_value()) return std::nullopt;
  if (members->all().size() != 1U + (before ? 1 : 0) + (until ? 1 : 0)) return std::nullopt;
  if (id != nullptr) entry.id = id->text;
  if (subject != nullptr) entry.subject = subject->text;
  if (session != nullptr) entry.session = session->text;
  if (entry.id.empty() && entry.subject.empty() && entry.session.empty()) return std::nullopt;
  entry.before_s = before.value_or(0);
  entry.until_s = until.value_or(entry.until_s);
  return entry;
}

std::string Revocation::text() const {
  Buffer line;
  const bool of_subject = id.empty() && session.empty();
  line.append(of_subject ? R"({"sub":")" : id.empty() ? R"({"sid":")" : R"({"jti":")");
  append_json_escaped(line, of_subject ? subject : id.empty() ? session : id);
  line.append("\"");
  if (of_subject) line.append(fmt::format(R"(,"before":{})", before_s));
  if (std::isfinite(until_s)) line.append(fmt::format(R"(,"exp":{})", until_s));
  line.append("}");
  return std::string(line.view());
}

std::expected<std::shared_ptr<Revocations>, std::string> Revocations::read(std::string path, double now_s) {
  std::shared_ptr<Revocations> made(new Revocations(std::move(path)));
  const std::string& name = made->path_;
  std::ifstream file(name, std::ios::binary);
  if (!file) {
    if (errno != ENOENT) return failed(name);
    const std::string folder = std::filesystem::absolute(name).parent_path().string();
    if (::access(folder.c_str(), W_OK | X_OK) != 0) return failed(folder);
    made->is_new_ = true;
    return made;
  }
  if (::access(name.c_str(), W_OK) != 0) return failed(name);
  std::string text;
  for (char part[64 * 1024]; file.read(part, sizeof part), file.gcount() != 0;) {
    text.append(part, static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return failed(name);
  auto lines = parse_lines(name, text);
  if (!lines) return std::unexpected(std::move(lines.error()));
  std::erase_if(lines->entries, [&](const Revocation& entry) { return !has_effect(entry, now_s); });
  made->entries_ = std::move(lines->entries);
  made->length_ = lines->length;
  if (made->entries_.size() > most) {
    return std::unexpected(fmt::format("{}: it has more than {} revocations that have not expired", name, most));
  }
  if (!made->entries_.empty()) made->version_ = 1;
  return made;
}

Revocations::~Revocations() {
  if (file_ >= 0) ::close(file_);
}

std::size_t Revocations::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::expected<void, std::string> Revocations::open() {
  if (path_.empty()) return {};
  if (file_ >= 0 && is_current()) return {};
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  const int file = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return failed(path_);
  const auto refuse = [file](std::unexpected<std::string> why) {
    ::close(file);
    return why;
  };
  const bool is_locked = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  struct stat status{};
  if (::fstat(file, &status) != 0) return refuse(failed(path_));
  // Without a name: the other process has just replaced the file.
  if (!is_locked || status.st_nlink == 0) {
    return refuse(std::unexpected(path_ + ": another process uses it; each needs a file of its own"));
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t read = ::pread(file, text.data(), text.size(), 0);
  if (read < 0) return refuse(failed(path_));
  text.resize(static_cast<std::size_t>(read));
  auto lines = parse_lines(path_, text);
  if (!lines) return refuse(std::unexpected(std::move(lines.error())));
  // Bytes after the last line were not written completely.
  if (::ftruncate(file, lines->length) != 0 || !sync_folder_of(path_)) return refuse(failed(path_));
  file_ = file;
  length_ = lines->length;
  // Somebody has removed or emptied the file. No revocation is lost by that.
  if (status.st_size == 0 && !entries_.empty()) return append(text_of(entries_));
  const std::lock_guard lock(mutex_);
  entries_ = std::move(lines->entries);
  ++prunings_;
  version_.fetch_add(1, std::memory_order_release);
  return {};
}

bool Revocations::is_current() const {
  struct stat own{};
  struct stat named{};
  return ::fstat(file_, &own) == 0 && ::stat(path_.c_str(), &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino && own.st_size == length_;
}

std::expected<void, std::string> Revocations::append(std::string_view lines) {
  if (path_.empty()) return {};
  if (write_all(file_, lines) && ::fdatasync(file_) == 0) {
    length_ += static_cast<std::int64_t>(lines.size());
    return {};
  }
  auto why = failed(path_);
  (void)::ftruncate(file_, length_);
  ::close(std::exchange(file_, -1));
  return why;
}

std::expected<void, std::string> Revocations::prune(double now_s) {
  std::vector<Revocation> kept = entries_;
  std::erase_if(kept, [&](const Revocation& entry) { return !has_effect(entry, now_s); });
  if (!path_.empty()) {
    if (auto replaced = replace_by(kept); !replaced) return replaced;
  }
  const std::lock_guard lock(mutex_);
  entries_ = std::move(kept);
  ++prunings_;
  version_.fetch_add(1, std::memory_order_release);
  return {};
}

std::expected<void, std::string> Revocations::replace_by(std::span<const Revocation> kept) {
  const std::string lines = text_of(kept);
  const std::string fresh = path_ + ".new";
  const int file = ::open(fresh.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return failed(fresh);
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 || !write_all(file, lines) || ::fsync(file) != 0 ||
      std::rename(fresh.c_str(), path_.c_str()) != 0) {
    auto why = failed(fresh);
    ::close(file);
    return why;
  }
  ::close(std::exchange(file_, file));
  length_ = static_cast<std::int64_t>(lines.size());
  if (!sync_folder_of(path_)) return failed(path_);
  return {};
}

std::expected<void, std::string> Revocations::hold() {
  const std::lock_guard writing(writing_);
  return open();
}

std::expected<void, std::string> Revocations::add(std::span<const Revocation> added, double now_s) {
  constexpr std::size_t step = 1000;
  const std::lock_guard writing(writing_);
  if (auto opened = open(); !opened) return opened;
  if (entries_.size() + added.size() > std::min(prune_at_, most)) {
    if (auto pruned = prune(now_s); !pruned) return pruned;
    prune_at_ = 2 * entries_.size() + step;
  }
  if (entries_.size() + added.size() > most) {
    return std::unexpected(fmt::format("{}{}there are {} revocations that have not expired, and no more are possible",
                                       path_, path_.empty() ? "" : ": ", entries_.size()));
  }
  const std::string lines = path_.empty() ? std::string() : text_of(added);
  // After append() nothing may fail, so the memory is taken before.
  std::vector<Revocation> fresh(added.begin(), added.end());
  if (const std::size_t size = entries_.size() + fresh.size(); size > entries_.capacity()) {
    const std::lock_guard lock(mutex_);
    entries_.reserve(std::max(size, 2 * entries_.capacity()));
  }
  if (auto written = append(lines); !written) return written;
  const std::lock_guard lock(mutex_);
  std::ranges::move(fresh, std::back_inserter(entries_));
  version_.fetch_add(1, std::memory_order_release);
  return {};
}

void Revocations::View::catch_up() {
  const std::lock_guard lock(of_->mutex_);
  if (prunings_ != of_->prunings_) {
    ids_.clear();
    sessions_.clear();
    subjects_.clear();
    count_ = 0;
    prunings_ = of_->prunings_;
  }
  for (; count_ < of_->entries_.size(); ++count_) {
    const Revocation& entry = of_->entries_[count_];
    if (!entry.id.empty()) {
      ids_.insert(entry.id);
    } else if (!entry.session.empty()) {
      sessions_.insert(entry.session);
    } else {
      double& before_s = subjects_.try_emplace(entry.subject, entry.before_s).first->second;
      before_s = std::max(before_s, entry.before_s);
    }
  }
  version_ = of_->version_.load(std::memory_order_relaxed);
}

bool Revocations::View::find(const http::Claims& claims) const {
  if (const http::Claim* const id = name_in(claims, "jti"); id != nullptr && ids_.contains(id->text)) return true;
  if (!sessions_.empty()) {
    const http::Claim* const session = name_in(claims, "sid");
    if (session != nullptr && sessions_.contains(session->text)) return true;
  }
  if (subjects_.empty()) return false;
  const http::Claim* const subject = name_in(claims, "sub");
  const auto found = subject != nullptr ? subjects_.find(subject->text) : subjects_.end();
  if (found == subjects_.end()) return false;
  std::optional<double> issued;
  // A token that does not say when it was issued may be from before.
  return !read_date(claims, "iat", issued) || !issued || *issued < found->second;
}

}  // namespace sluice::gateway::jwt

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "http/claims.h"

namespace sluice::gateway::jwt {

// An entry of a file of revocations. Times are in seconds of the Unix epoch.
struct Revocation {
  std::string id;                                            // the "jti" of the revoked token
  std::string subject;                                       // without `id` and `session`: the "sub" of the tokens
  double before_s = 0;                                       // with `subject`: they were issued before this time
  double until_s = std::numeric_limits<double>::infinity();  // "exp" of the tokens
  std::string session = {};                                  // the "sid" of the tokens

  // A line of the file, without the line break. Nothing if it is not one.
  [[nodiscard]] static std::optional<Revocation> parse(std::string_view line);
  [[nodiscard]] std::string text() const;
};

// The tokens that operators have revoked, in a file, or those of sessions that [login] has ended, in memory. All cores
// share it, and so do policies with the same file. The file has one JSON object per line: docs/formats/revocations.md.
class Revocations {
 public:
  static constexpr std::size_t most = 100'000;  // entries that have not expired
  // An entry is kept for so long after the tokens' "exp", because policies accept them for their `leeway`.
  static constexpr double longest_leeway_s = 3600;

  // Reads the file and leaves it as it is. There are no revocations if it does not exist. The error says what is wrong
  // with the file, or that it could not be written.
  [[nodiscard]] static std::expected<std::shared_ptr<Revocations>, std::string> read(std::string path, double now_s);
  // Revocations without a file. hold() and add() do not block for long.
  [[nodiscard]] static std::shared_ptr<Revocations> in_memory() {
    return std::shared_ptr<Revocations>(new Revocations({}));
  }
  Revocations(const Revocations&) = delete;
  ~Revocations();

  // Locks the file for add(), and creates it if it does not exist. If somebody else has changed it since it was read,
  // reads it again. Fails if another process has it. Blocks.
  [[nodiscard]] std::expected<void, std::string> hold();
  // Returns after the entries are on disk and every request from now on finds them. The error is for the operator; then
  // none of them are in effect. May be called by any thread, and blocks.
  [[nodiscard]] std::expected<void, std::string> add(std::span<const Revocation> added, double now_s);
  [[nodiscard]] const std::string& path() const { return path_; }
  // There was no file.
  [[nodiscard]] bool is_new() const { return is_new_; }
  [[nodiscard]] std::size_t size() const;

  // One core's copy of the entries.
  class View {
   public:
    explicit View(std::shared_ptr<const Revocations> of) : of_(std::move(of)) {}
    // Whether the token with these claims has been revoked. Costs a look at a counter, and up to three look-ups.
    [[nodiscard]] bool has(const http::Claims& claims) {
      if (of_->version_.load(std::memory_order_acquire) != version_) [[unlikely]]
        catch_up();
      return count_ != 0 && find(claims);
    }

   private:
    struct Hash : std::hash<std::string_view> {
      using is_transparent = void;
    };
    void catch_up();
    [[nodiscard]] bool find(const http::Claims& claims) const;

    std::shared_ptr<const Revocations> of_;
    std::uint64_t version_ = 0;  // of the entries that the copy has
    std::uint64_t prunings_ = 0;
    std::size_t count_ = 0;
    std::unordered_set<std::string, Hash, std::equal_to<>> ids_;
    std::unordered_set<std::string, Hash, std::equal_to<>> sessions_;
    std::unordered_map<std::string, double, Hash, std::equal_to<>> subjects_;  // issued before
  };

 private:
  explicit Revocations(std::string path) : path_(std::move(path)) {}

  // Does nothing if the file is open and current.
  [[nodiscard]] std::expected<void, std::string> open();
  // Whether the open file still has the name, and nobody else has written to it.
  [[nodiscard]] bool is_current() const;
  [[nodiscard]] std::expected<void, std::string> append(std::string_view lines);
  // Removes expired entries.
  [[nodiscard]] std::expected<void, std::string> prune(double now_s);
  // Replaces the file by one with these entries.
  [[nodiscard]] std::expected<void, std::string> replace_by(std::span<const Revocation> kept);

  const std::string path_;  // empty: in memory
  bool is_new_ = false;
  // For those who write; not held while a request is served.
  std::mutex writing_;
  int file_ = -1;             // open and locked; -1 before hold(), and after an error
  std::int64_t length_ = 0;   // of the complete lines in the file
  std::size_t prune_at_ = 0;  // number of entries
  // For the copies; held for a short time.
  mutable std::mutex mutex_;
  std::vector<Revocation> entries_;        // guarded by mutex_; changed only with writing_ as well
  std::uint64_t prunings_ = 0;             // times that entries have been removed
  std::atomic<std::uint64_t> version_{0};  // changes after `entries_` has changed
};

}  // namespace sluice::gateway::jwt

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "files/file.h"
#include "http/blob.h"

// A folder of files that are called by what they hold: "3f/a9..." is the file whose SHA-256 begins with 3fa9. What is
// there is whole and does not change; what holds the same is one file. Every call here may wait for the disk.
namespace sluice::files {

// The path of a hash beneath the folder.
[[nodiscard]] std::string path_of_blob(std::string_view hash);

class BlobFolder {
 public:
  enum class Temporaries : std::uint8_t {
    unnamed,  // O_TMPFILE, which the kernel drops with its last descriptor; named where the file system has none
    named,    // in the folder "incoming"; locked while they are written, so that those of the dead can be told
  };

  // Makes the folder if need be. Throws std::system_error.
  [[nodiscard]] static std::shared_ptr<BlobFolder> open(const std::string& path,
                                                        Temporaries temporaries = Temporaries::unnamed);
  BlobFolder(const BlobFolder&) = delete;

  // A file on its way. Used by one thread at a time, which need not be the same; destroyed before finish() it leaves
  // nothing. Errors are errnos.
  class Incoming {
   public:
    explicit Incoming(std::shared_ptr<BlobFolder> folder);
    Incoming(const Incoming&) = delete;
    ~Incoming();

    [[nodiscard]] std::expected<void, int> append(std::string_view bytes);
    // In this order, so that no crash leaves half of it under its name: the file's bytes are on the disk, then it has
    // its name, then the name is.
    [[nodiscard]] std::expected<http::Blob, int> finish();

   private:
    class Hash;
    [[nodiscard]] std::expected<void, int> open_file();
    [[nodiscard]] std::expected<void, int> give_name(int shard, const std::string& name);

    std::shared_ptr<BlobFolder> folder_;
    std::unique_ptr<Hash> hash_;
    Descriptor file_;
    std::string temporary_;  // its name in "incoming"; empty: it has none
    std::uint64_t size_ = 0;
  };

  // Removes what processes have left behind that were killed while they wrote under temporary names. Those of the
  // living stay: several may share the folder.
  void remove_leftovers() const;

  struct Sweep {
    std::uint64_t files = 0;  // that are there
    std::uint64_t used = 0;
    std::uint64_t young = 0;  // unused, and kept for now
    std::uint64_t removed = 0;
    std::uint64_t removed_bytes = 0;
  };
  // Removes the files that are not used and were last sent before the instant. Others may be sent meanwhile: a file
  // that is sent again while it is looked at counts as sent now. Not `in_earnest`: only says what it would.
  [[nodiscard]] std::expected<Sweep, int> sweep(const std::function<bool(std::string_view hash)>& is_used,
                                                std::int64_t sent_before_s, bool in_earnest) const;

 private:
  BlobFolder(Descriptor root, Temporaries temporaries) : root_(std::move(root)), temporaries_(temporaries) {}
  // Opens the folder of the hash's first byte, which is made where it is missing.
  [[nodiscard]] std::expected<Descriptor, int> open_shard(std::string_view hash);

  Descriptor root_;
  std::atomic<Temporaries> temporaries_;
  std::array<std::atomic<bool>, 256> shards_{};  // whose names are on the disk, as far as this process knows
};

}  // namespace sluice::files

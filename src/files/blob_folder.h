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

// A folder of files that are named after the SHA-256 of their content: "3f/a9..." is the file whose hash begins with
// 3fa9. Every file in it is complete and never changes, and equal contents share one file. Every call here may wait for
// the disk.
namespace sluice::files {

// The path of a hash beneath the folder.
[[nodiscard]] std::string path_of_blob(std::string_view hash);

class BlobFolder {
 public:
  enum class Temporaries : std::uint8_t {
    unnamed,  // O_TMPFILE: the kernel removes it with its last descriptor; `named` if the file system lacks it
    named,    // in the folder "incoming"; locked while it is written, so that a dead process's files can be recognized
  };

  // Creates the folder if it does not exist. Throws std::system_error.
  [[nodiscard]] static std::shared_ptr<BlobFolder> open(const std::string& path,
                                                        Temporaries temporaries = Temporaries::unnamed);
  BlobFolder(const BlobFolder&) = delete;

  // A file that is being written. Several threads may use it, but only one at a time. If it is destroyed before
  // finish(), it leaves nothing behind. Errors are errnos.
  class Incoming {
   public:
    explicit Incoming(std::shared_ptr<BlobFolder> folder);
    Incoming(const Incoming&) = delete;
    ~Incoming();

    [[nodiscard]] std::expected<void, int> append(std::string_view bytes);
    // Syncs the file's bytes, gives the file its name, and then syncs the name. In this order, no crash leaves an
    // incomplete file under its final name.
    [[nodiscard]] std::expected<http::Blob, int> finish();

   private:
    class Hash;
    [[nodiscard]] std::expected<void, int> open_file();
    [[nodiscard]] std::expected<void, int> give_name(int shard, const std::string& name);

    std::shared_ptr<BlobFolder> folder_;
    std::unique_ptr<Hash> hash_;
    Descriptor file_;
    std::string temporary_;  // its name in "incoming"; empty if it has none
    std::uint64_t size_ = 0;
  };

  // Removes temporary files of processes that were killed while they wrote. Files of running processes stay, because
  // several processes may share the folder.
  void remove_leftovers() const;

  struct Sweep {
    std::uint64_t files = 0;  // in the folder
    std::uint64_t used = 0;
    std::uint64_t young = 0;  // unused, but too recent to be removed
    std::uint64_t removed = 0;
    std::uint64_t removed_bytes = 0;
  };
  // Removes files that are unused and whose last upload was before `sent_before_s`. Uploads may continue meanwhile: a
  // file that is uploaded again while the sweep examines it counts as uploaded now. If `in_earnest` is false, only
  // reports what it would remove.
  [[nodiscard]] std::expected<Sweep, int> sweep(const std::function<bool(std::string_view hash)>& is_used,
                                                std::int64_t sent_before_s, bool in_earnest) const;

 private:
  BlobFolder(Descriptor root, Temporaries temporaries) : root_(std::move(root)), temporaries_(temporaries) {}
  // Opens the folder of the hash's first byte, and creates it if it does not exist.
  [[nodiscard]] std::expected<Descriptor, int> open_shard(std::string_view hash);

  Descriptor root_;
  std::atomic<Temporaries> temporaries_;
  std::array<std::atomic<bool>, 256> shards_{};  // whether this process knows that the shard's name is on the disk
};

}  // namespace sluice::files

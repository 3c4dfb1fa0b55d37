#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "files/blob_folder.h"
#include "files/options.h"
#include "files/static_files.h"
#include "http/blob.h"

namespace sluice::files {

// One core's access to a [store.NAME]. The pool's threads write, hash and sync the files. At most `chunk_bytes` of each
// upload are in memory. Files are served in the same way as by StaticFiles.
class Store final : public http::BlobStore {
 public:
  static constexpr std::size_t chunk_bytes = 256 * 1024;

  struct Counters {
    std::uint64_t files = 0;  // written to the disk, including those that already existed
    std::uint64_t bytes = 0;  // of these files
    // Refused files by reason: longer than `limit`, a type that is not allowed, too many uploads at once, or a disk
    // error.
    std::uint64_t too_long = 0;
    std::uint64_t wrong_type = 0;
    std::uint64_t too_many = 0;
    std::uint64_t failed = 0;

    [[nodiscard]] Readings readings() const;
  };

  // Throws std::system_error if the folder cannot be created or opened.
  Store(std::string name, const StoreOptions& options, core::Reactor& reactor, core::Mailbox& mailbox,
        core::BlockingPool& threads);

  [[nodiscard]] std::uint64_t limit() const override { return options_.limit.value; }
  [[nodiscard]] bool takes(std::string_view media_type) const override;
  [[nodiscard]] std::unique_ptr<http::BlobWriter> begin(std::string_view media_type) override;
  [[nodiscard]] core::Task<http::Response> serve(http::Request& request, http::BlobAnswer answer) override;

  [[nodiscard]] const StaticFiles& files() const { return files_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  class Writer;

  [[nodiscard]] http::Response dress(http::Response response, const http::BlobAnswer& answer) const;

  const std::string name_;
  const StoreOptions options_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  std::shared_ptr<BlobFolder> folder_;
  StaticFiles files_;
  std::uint32_t writing_ = 0;  // uploads in progress
  mutable Counters counters_;  // mutable because takes() counts the types that it refuses
};

// A Content-Disposition (RFC 6266) with the name to save the file as. It holds the name in ASCII without forbidden
// characters. If that differs from the name, it also holds the name in UTF-8 (RFC 8187).
[[nodiscard]] std::string content_disposition(std::string_view name);

}  // namespace sluice::files

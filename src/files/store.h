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

// One core's access to a [store.NAME]. Files are written, hashed and brought to the disk by threads of the pool, up to
// `chunk_bytes` of each in memory; they are answered with as StaticFiles does it.
class Store final : public http::BlobStore {
 public:
  static constexpr std::size_t chunk_bytes = 256 * 1024;

  struct Counters {
    std::uint64_t files = 0;  // that were brought to the disk, also those that were there before
    std::uint64_t bytes = 0;  // of them
    // By why they were refused: longer than `limit`, of another type, as many on their way as may be, or the disk.
    std::uint64_t too_long = 0;
    std::uint64_t wrong_type = 0;
    std::uint64_t too_many = 0;
    std::uint64_t failed = 0;

    [[nodiscard]] Readings readings() const;
  };

  // Throws std::system_error where the folder cannot be made or opened.
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
  std::uint32_t writing_ = 0;  // uploads on their way
  mutable Counters counters_;  // who is told that a type is not taken, refuses the file
};

// Content-Disposition (RFC 6266) that says what the file is to be saved as: the name without what it may not hold, in
// ASCII, and as UTF-8 (RFC 8187) where that is not all of it.
[[nodiscard]] std::string content_disposition(std::string_view name);

}  // namespace sluice::files

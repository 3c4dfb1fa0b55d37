#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/components/component.h"
#include "app/components/file_id.h"
#include "files/options.h"
#include "files/static_files.h"

namespace sluice::app {

// [[files]]. It is another one if the path of `root` leads to another folder. If only the paths of APIs differ, it
// adopts the part of the one before, with its open files.
class FilesComponent final : public ComponentOf<FilesComponent, files::StaticFiles> {
 public:
  // `api_paths`: as for StaticFiles::set_api_paths().
  FilesComponent(files::FilesOptions of, std::vector<std::string> api_paths);

  [[nodiscard]] bool is_same(const FilesComponent& other) const {
    return adopts(other) && api_paths_ == other.api_paths_;
  }
  const files::FilesOptions options;

 private:
  std::shared_ptr<files::StaticFiles> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const FilesComponent& before) const override;
  void serve(files::StaticFiles& files, const Parts& /*parts*/) const override { files.set_api_paths(api_paths_); }
  Readings readings_of(files::StaticFiles& files) const override { return files.counters().readings(); }

  const std::vector<std::string> api_paths_;
  const FileId root_;
};

}  // namespace sluice::app

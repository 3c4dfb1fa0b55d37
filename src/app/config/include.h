#pragma once

#include <vector>

#include "app/config/document.h"
#include "app/config/source.h"

namespace sluice::app::config {

// Reads the files that the document's `include` names, and adds them to the source in their order. `document`: that of
// the source's first file. Returns false if a file cannot be read.
bool read_included(const Value& document, Source& source, std::vector<Diagnostic>& errors);

// Adds the tables of an included file to the document: lists of tables are appended, and tables of names, as
// [database.NAME], are put together. Reports keys that both have.
void join(Value& document, Value included, const FileNames& files, std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config

#include "tools/lib/trace/command/rotation.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/record/writer.hpp"
#include "tools/lib/trace/command/files.hpp"

namespace rtrs::tools {

namespace {

// Splits the name of a file of a rotation: "a.rtrc.2" is number 2 of a.rtrc, "a.rtrc" is number 0 of itself.
std::pair<std::string, unsigned> split(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  unsigned number = 0;
  const char* const end = name.data() + name.size();
  if (dot == name.npos || dot == 0 || dot + 1 == name.size() || name[dot + 1] == '0') return {name, 0};
  const auto [rest, wrong] = std::from_chars(name.data() + dot + 1, end, number);
  if (wrong != std::errc{} || rest != end) return {name, 0};
  return {name.substr(0, dot), number};
}

std::set<unsigned> numbers_of(const std::string& base) {
  const std::size_t slash = base.rfind('/');
  const std::string folder = slash == base.npos ? "." : base.substr(0, slash + 1);
  const std::string file = slash == base.npos ? base : base.substr(slash + 1);
  std::set<unsigned> numbers;
  DIR* const all = ::opendir(folder.c_str());
  if (all == nullptr) return numbers;
  while (const dirent* entry = ::readdir(all)) {
    const auto [of, number] = split(entry->d_name);
    if (of == file || entry->d_name == file) numbers.insert(entry->d_name == file ? 0 : number);
  }
  ::closedir(all);
  return numbers;
}

std::string file_of(const std::string& base, unsigned number) {
  return number == 0 ? base : base + '.' + std::to_string(number);
}

}  // namespace

std::vector<std::string> trace_names(const std::vector<std::string>& given) {
  std::map<std::string, std::set<std::string>> files;
  for (const std::string& name : given) files[split(name).first].insert(name);
  std::vector<std::string> names;
  std::set<std::string> joined;
  for (const std::string& name : given) {
    const std::string base = split(name).first;
    if (files[base].size() < 2)
      names.push_back(name);
    else if (joined.insert(base).second)
      names.push_back(base + ".*");
  }
  return names;
}

std::vector<std::string> rotation_files(const std::string& name) {
  const std::string base = name.substr(0, name.size() - 2);
  const std::set<unsigned> numbers = numbers_of(base);
  if (numbers.empty()) {
    error("cannot open " + name + ": no file has this name; " + base + ".* means " + base + ", " + base +
          ".1 and so on");
    return {};
  }
  std::vector<std::string> files;
  for (unsigned number = *numbers.rbegin();; --number) {
    if (!numbers.contains(number)) {
      error("cannot read " + name + " as one trace: " + file_of(base, number) + " is missing between " +
            file_of(base, *numbers.upper_bound(number)) + " and " +
            file_of(base, *std::prev(numbers.lower_bound(number))) + "; give files without a gap one by one");
      return {};
    }
    files.push_back(file_of(base, number));
    if (number == *numbers.begin()) return files;
  }
}

// Reads the records of one file after the other and writes them to a buffer.
class RotationSource::Joined {
 public:
  Joined(std::vector<std::string> files, Patience patience)
      : files_(std::move(files)),
        newest_(files_.back()),
        patience_(patience),
        writer_(std::make_unique<trace::StringSink>(buffer_)) {}

  std::ptrdiff_t read(void* to, std::size_t size) {
    while (at_ == buffer_.size()) {
      buffer_.clear();
      at_ = 0;
      if (errno_ != 0) return -errno_;
      if (done_) return 0;
      more();
    }
    const std::size_t part = std::min(size, buffer_.size() - at_);
    std::memcpy(to, buffer_.data() + at_, part);
    at_ += part;
    return static_cast<std::ptrdiff_t>(part);
  }

 private:
  struct Part {
    Part(const std::string& path, const std::string& newest, Patience patience)
        : file(path), source(file.fd(), newest, patience), reader(source) {}
    InputFile file;
    FollowSource source;
    trace::Reader reader;
  };

  void more() {
    if (part_ == nullptr && !open_next()) return;
    trace::Record record;
    const trace::Reader::Status status = part_->reader.next(record);
    if (status == trace::Reader::Status::ok) return take(record);
    if (report_stop(files_[next_ - 1], status, part_->reader) != 0) {
      keep(writer_.flush());
      done_ = true;
      return;
    }
    if (patience_.count() != 0 && next_ == files_.size()) {
      std::string next = next_of_rotation(part_->file.fd(), newest_);
      if (!next.empty()) files_.push_back(std::move(next));
    }
    part_.reset();
    if (next_ < files_.size()) return;
    keep(writer_.finish());
    done_ = true;
  }

  bool open_next() {
    part_ = std::make_unique<Part>(files_[next_++], newest_, patience_);
    const trace::Reader::Status status =
        part_->file.is_open() ? part_->reader.open() : trace::Reader::Status::ok;
    if (!part_->file.is_open() || report_stop(files_[next_ - 1], status, part_->reader) != 0) {
      errno_ = EIO;
      return false;
    }
    const trace::Header& header = part_->reader.header();
    if (next_ == 1) {
      header_ = header;
      keep(writer_.start(header));
    } else if ((header.flags & trace::partial) == 0 || header.origin.role != header_.origin.role ||
               (header_.start != 0 && header.start != header_.start) || !(header.schema == header_.schema)) {
      return refuse("it is of another run");
    }
    return errno_ == 0;
  }

  void take(const trace::Record& record) {
    if (record.seq == 0 && next_ > 1 && record.time < last_) {
      refuse("it begins before the end of that file");
      return;
    }
    last_ = record.time;
    keep(writer_.append_values(*record.event, record.instance, record.time, record.values));
    // A reader of a followed trace gets each block when it is written.
    if (patience_.count() != 0 && part_->reader.is_block_read()) keep(writer_.flush());
  }

  bool refuse(const std::string& why) {
    error(files_[next_ - 1] + " does not continue " + files_[next_ - 2] + ": " + why);
    errno_ = EINVAL;
    return false;
  }
  void keep(int failed) { errno_ = errno_ != 0 ? errno_ : failed; }

  std::vector<std::string> files_;
  std::string newest_;  // name of the file that the recorder writes
  Patience patience_;
  std::size_t next_ = 0;  // index of the next file
  std::unique_ptr<Part> part_;
  trace::Header header_;  // of the oldest file
  Nanos last_ = 0;
  std::string buffer_;
  std::size_t at_ = 0;
  trace::Writer writer_;
  int errno_ = 0;
  bool done_ = false;
};

RotationSource::RotationSource(std::vector<std::string> files, Patience patience)
    : joined_(std::make_unique<Joined>(std::move(files), patience)) {}
RotationSource::~RotationSource() = default;

std::ptrdiff_t RotationSource::read(void* to, std::size_t size) noexcept {
  try {
    return joined_->read(to, size);
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

}  // namespace rtrs::tools

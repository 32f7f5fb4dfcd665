// Script for block devices, as lines of text: the part of a scenario file (sim/scenarios/scenario_text.hpp)
// after the line `disks`. At the start, one client has a connected session with the paths 0 and 1, and no
// mapped device.
//
//   open a                                  map the disk and wait until it is open
//   write a sector=0..50 sectors=8 as=first submit a write of 8 sectors within the first 57
//   break_path path=0                       break the connections of path 0; without path=: of both paths
//   done first is=ok                        wait for the write `first`, which must succeed
//   flush a is=EIO                          submit a flush and wait; it must fail with EIO
//   repeat number=4 ... end                 repeat the lines four times; stop when a rule is broken
//   either ... or ... end                   play one of the alternatives, chosen at random
//
// Each range LOW..HIGH stands for a random value; HIGH is exclusive. A time is drawn in its unit. If a line
// waits for more than ten minutes of virtual time, its rule counts as broken.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

// Arguments that a verb accepts.
enum DeviceWord : std::uint32_t {
  kDisk = 1,
  kNumber = 2,
  kTime = 4,
  kSectorWords = 8,  // sector and sectors
  kPath = 16,
  kIs = 32,
  kAs = 64,
  kFua = 128,
  kReadOnly = 256,
  kProcess = 512,
  kMemory = 1024,      // disk properties: memory, no_fua, writable, read_only
  kName = 2048,        // name of an IO instead of a disk
  kNewDisk = 4096,     // any disk name
  kSectorsWord = 8192  // `sectors`, but not `sector`
};

// X(verb, words, description)
#define RTRS_SIM_DEVICE_VERBS(X)                                                                         \
  X(disk, kDisk | kMemory, "changes the disk: in memory, without FUA, not writable")                     \
  X(add_disk, kNewDisk | kSectorsWord, "the server has another disk, of `sectors`")                      \
  X(map, kNewDisk | kReadOnly | kIs, "starts to map the disk; is=EEXIST: expects an immediate refusal")  \
  X(open, kDisk | kReadOnly, "maps the disk, and waits until it is open")                                \
  X(remap, kDisk, "reopens the device")                                                                  \
  X(unmap, kDisk, "unmaps the device")                                                                   \
  X(opened, kDisk, "waits until the device is open")                                                     \
  X(unmapped, kNewDisk, "waits until it is unmapped")                                                    \
  X(refused, kNewDisk | kIs, "waits until the server has refused it with this errno")                    \
  X(not_open, kDisk, "a rule: the device is not open")                                                   \
  X(openings, kDisk | kNumber, "a rule: the device was opened `number` times")                           \
  X(size, kDisk | kSectorsWord, "a rule: the client knows a size of `sectors`")                          \
  X(holders, kDisk | kNumber, "a rule: `number` sessions of the server have it open")                    \
  X(write, kDisk | kSectorWords | kIs | kAs | kFua, "submits a write; with is= it waits for the result") \
  X(read, kDisk | kSectorWords | kIs | kAs, "submits a read")                                            \
  X(flush, kDisk | kIs | kAs, "submits a flush")                                                         \
  X(discard, kDisk | kSectorWords | kIs | kAs, "submits a discard")                                      \
  X(write_zeroes, kDisk | kSectorWords | kIs | kAs, "submits a write-zeroes")                            \
  X(done, kName | kIs, "waits until the IO named with as= has completed")                                \
  X(load, kDisk | kNumber | kSectorsWord, "submits `number` random IOs with pauses in between")          \
  X(spread, kDisk | kNumber, "submits up to eight writes and reads at once, each for other sectors")     \
  X(over, 0, "waits until every IO has completed")                                                       \
  X(crash, kProcess, "crashes the server host, or with `process` only the process")                      \
  X(start, 0, "the next server starts")                                                                  \
  X(restart, kTime | kProcess, "crash, pass time=, start")                                               \
  X(replace, 0, "the server closes orderly, and a new one starts")                                       \
  X(cut, kPath, "cuts the path in both directions")                                                      \
  X(heal, kPath, "heals the path")                                                                       \
  X(break_path, kPath, "breaks all connections of the path")                                             \
  X(link_up, 0, "waits until a path is connected")                                                       \
  X(link_down, 0, "waits until no path is connected")                                                    \
  X(take_away, kDisk, "the server operator closes the device by force")                                  \
  X(resize, kDisk | kSectorsWord, "the disk has `sectors` from now on")                                  \
  X(absent, kDisk | kIs, "the server refuses to open the disk with this errno; is=ok: stops refusing")   \
  X(fail_sync, kDisk, "a flush by another session fails")                                                \
  X(next_sync_fails, kDisk, "the next flush of the disk fails")                                          \
  X(in_storage, kNumber, "waits until storage has `number` operations in progress")                      \
  X(acted, kDisk | kNumber, "waits until `number` operations were executed on the disk")                 \
  X(pass, kTime, "waits")                                                                                \
  X(repeat, kNumber, "repeats the lines up to `end` `number` times")                                     \
  X(either, 0, "plays one of the parts between `or` lines, up to `end`, chosen at random")

struct DeviceLine {
  enum class Verb : std::uint8_t {
#define RTRS_SIM_DEVICE_VERB(name, words, text) name,
    RTRS_SIM_DEVICE_VERBS(RTRS_SIM_DEVICE_VERB)
#undef RTRS_SIM_DEVICE_VERB
  };
  struct Range {
    std::uint64_t low = 0, high = 1;  // `high` is exclusive
  };
  // Expected result of an IO.
  enum class Outcome : std::uint8_t {
    unasked,  // the line does not wait for the result
    ok,
    failed,     // fails with any errno
    error,      // fails with the errno `error`
    ok_at_last  // a first try may report a loss (EIO); a second try must succeed
  };
  Verb verb = Verb::pass;
  std::string text;
  std::size_t line = 0;  // line number in the file, from 1
  std::string disk;      // disk name, or name of an IO
  std::string as;
  Range number{1, 2}, sector{0, 1}, sectors{8, 9}, path{0, 1}, time{0, 1};
  Nanos unit = 1;  // unit of `time`, ns
  bool both_paths = true, fua = false, read_only = false, process = false;
  bool memory = false, no_fua = false;
  Outcome is = Outcome::unasked;
  std::uint16_t error = 0;
  std::vector<std::vector<DeviceLine>> parts;  // blocks of `repeat` and `either`
};
using DeviceScript = std::vector<DeviceLine>;

class DeviceScriptReader {
 public:
  // Reads the `rest` of a line `disks`, for example "a b=128"; default size: 64 sectors. Returns the error;
  // empty if valid.
  std::string take_disks(std::string_view rest);
  // Reads a line after `disks`. `number`: line number in the text. Returns the error; empty if valid.
  std::string take(std::string_view line, std::size_t number);
  // Checks that all blocks are ended. Returns the error, and in `number` the line of the open block; empty if
  // valid.
  std::string end(std::size_t& number) const;

  struct Disk {
    std::string name;
    std::uint64_t sectors = 0;
  };
  std::vector<Disk> disks;
  DeviceScript script;

 private:
  bool is_known(std::string_view disk) const noexcept;
  // Returns the error if the device or IO that the line names certainly does not exist when the line is
  // played; otherwise empty.
  std::string existence_error(const DeviceLine&) const;
  std::string take_word(DeviceLine&, std::uint32_t words, std::string_view word);

  std::vector<std::size_t> open_;    // open blocks, outermost first: index of each in the block around it
  std::vector<std::string> added_;   // disks from add_disk
  std::vector<std::string> mapped_;  // devices mapped so far, in any block
  std::vector<std::string> named_;   // names of IOs from as=
  DeviceScript& innermost();
};

// Help text: each verb with its words, one per line.
std::string device_steps_text();

// Plays the script in a world whose session is connected.
void play(BlockWorld&, const DeviceScript&);
// Runs a world with these disks: connects the session, calls `what`, and closes everything.
void play_disks(World&, const std::vector<DeviceScriptReader::Disk>&,
                const std::function<void(BlockWorld&)>& what);

}  // namespace rtrs::sim

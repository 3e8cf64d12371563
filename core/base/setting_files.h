// What a ROLLCALL_* variable is set to: in the environment, else in the user's configuration file,
// else in the system's. A file has lines NAME=VALUE, comment lines that begin with #, and blank
// ones; later lines win.
//
//   the system's   /etc/rollcall.conf
//   the user's     $XDG_CONFIG_HOME/rollcall.conf, else ~/.config/rollcall.conf; or the file that
//                  ROLLCALL_CONF_FILE names in its place
//
// A value may name a library that is loaded into the job, so a file is believed only where nobody
// else can have written it: it belongs to root or to the user that the process runs as, and neither
// group nor others may write to it. The user's file is not looked for in a process with more rights
// than who started it (AT_SECURE). Whatever else lies there - a pipe, a device, a folder, more than
// kSettingFileBytesMax - is not read, and costs the job nothing: no pipe or device is opened. What
// a path leads to has to be looked up all the same, and on a network file system that hangs this
// waits, as everything else does that the job looks for in a home directory there.
//
// Both files are read once in a process, with the first variable that the environment does not
// have. Threads: any. Nothing is allocated, and no error is raised.
#pragma once

#include <cstdint>
#include <string_view>

namespace rollcall {

// A configuration file, and the values of both together: a screen of settings with its comments,
// and a path for each that is one.
inline constexpr uint32_t kSettingFileBytesMax = 64 * 1024;
inline constexpr uint32_t kSettingValueBytesMax = 16 * 1024;

enum class SettingOrigin : uint8_t { none, environment, user_file, system_file };

// Gets one sentence.
using SettingComplaint = void (*)(std::string_view sentence);

// Null when it is set nowhere. An empty value means "as if unset", as launchers write it. The text
// stays where it is, unless it is the environment's. [cold]
const char* setting(const char* name) noexcept;
SettingOrigin origin_of_setting(const char* name) noexcept;

// The path, or "" where there is no place for such a file. user_file, system_file
const char* setting_file(SettingOrigin which) noexcept;
// Whether there was such a file, and it was believed.
bool is_setting_file_read(SettingOrigin which) noexcept;

// One sentence for a file that is not used, or for the first of its lines that are not.
void complain_about_setting_files(SettingComplaint complain) noexcept;
// One sentence for each of them, and for names that only another release may know. Reads the files
// again. Threads: one.
void list_setting_complaints(SettingComplaint complain) noexcept;

}  // namespace rollcall

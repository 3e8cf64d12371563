// Command lines without their secrets. What is recorded of a job is read by others than those who
// started it.
//
// The rule. A value is left out, and `…` stands for it,
//   - of an argument whose name ends in a word for a secret (token, key, apikey, accesskey, bearer,
//     authorization), in any case: `--hf-token VALUE`, `--api_key=VALUE`, `HF_TOKEN=VALUE`,
//     `trainer.wandbKey=VALUE`, `"api_key": "VALUE"`, `?token=VALUE`; of words that are written
//     together the end counts: `--hftoken VALUE`;
//   - of an argument whose name has password, passwd, passphrase, secret or credential anywhere in
//     it: `-password VALUE`, `--db-password-2b VALUE`;
//   - of a URL, for what stands between `://` and `@`: `https://…@host/path`;
//   - of the header that curl and others are given: `Authorization: …`, `Bearer …`.
// Words are what separators and capitals within a name set apart. Of tokens and keys the last one
// decides: it says what the value is. `--tokenizer`, `--max-tokens`, `--tokens-per-step`,
// `--key-padding`, `--keep-last` and `--monkey` keep theirs. `--eos-token` and `--sort-key` do lose
// theirs: a word cannot tell a secret from what has its name. Digits behind the last word do not
// count.
//
// For the job's processes, too: no allocation, time linear in the text.
#pragma once

#include <string_view>

#include "core/base/text.h"

namespace rollcall {

// Writes a command line as /proc/self/cmdline has it, a NUL behind every argument, with spaces for
// the NULs. Where the text is cut off within an argument, pass it without that.
void write_without_secrets(TextWriter& out, std::string_view command_line) noexcept;

// Whether what an argument or a variable of this name is given counts as a secret. Leading dashes
// do not matter.
bool is_name_of_secret(std::string_view name) noexcept;

}  // namespace rollcall

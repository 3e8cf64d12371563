// What is left out of recorded command lines, and what is not.
#include "core/base/secrets.h"

#include <memory>
#include <string>

#include "tests/catch.h"

namespace rollcall {
namespace {

// Arguments with a '|' between them.
std::string written(std::string arguments) {
  for (char& c : arguments) c = c == '|' ? '\0' : c;
  arguments += '\0';
  std::string storage(arguments.size() * 3 + 8, 'x');
  TextWriter out(std::span<char>(storage.data(), storage.size()));
  write_without_secrets(out, arguments);
  return std::string(out.view());
}

TEST_CASE("arguments named after a secret lose their values") {
  const char* cases[][2] = {
      {"train|--hf-token|hf_abc|--steps|5", "train --hf-token … --steps 5"},
      {"train|--hf-token=hf_abc|x", "train --hf-token=… x"},
      {"train|--api-key=a b,c&d|x", "train --api-key=… x"},
      {"train|--wandb_key|a b|x", "train --wandb_key … x"},
      {"train|-password|pw", "train -password …"},
      {"train|--db.Password=pw", "train --db.Password=…"},
      {"train|--apiKey=k|--hfToken|t|--APIKey|u", "train --apiKey=… --hfToken … --APIKey …"},
      {"train|--aws-secret-access-key|k", "train --aws-secret-access-key …"},
      {"train|--client_secret=s|--credentials|c", "train --client_secret=… --credentials …"},
      {"env|HF_TOKEN=hf|WANDB_API_KEY=k|A=b|train", "env HF_TOKEN=… WANDB_API_KEY=… A=b train"},
      {"train|+trainer.hf_token=a,b|trainer.x=1", "train +trainer.hf_token=… trainer.x=1"},
      {"train|--token2=a", "train --token2=…"},
      {"train|--hftoken|hf_abc|--wandbapikey=k", "train --hftoken … --wandbapikey=…"},
      {"train|--dbpassword=a|--password-of-db|b", "train --dbpassword=… --password-of-db …"},
      {"train|--client-secret-value|s|--credentials-json={}",
       "train --client-secret-value … --credentials-json=…"},
      {"sh|-c|cd /x; HF_TOKEN=hf python t.py --api-key 'a b' -v",
       "sh -c cd /x; HF_TOKEN=… python t.py --api-key '…' -v"},
      {R"(t|--config|{"api_key": "a\"b c", "lr": 1, "token":"x"})",
       R"(t --config {"api_key": "…", "lr": 1, "token":"…"})"},
      {"t|{'password' : 'a', 'n': 2}", "t {'password' : '…', 'n': 2}"},
      {"curl|-H|Authorization: Bearer abc|x", "curl -H Authorization: Bearer … x"},
      {"curl|https://host/x?token=abc&n=5", "curl https://host/x?token=…&n=5"},
      // A process that has written its title over its arguments.
      {"train --hf-token hf_abc --steps 5", "train --hf-token … --steps 5"},
  };
  for (const auto& [arguments, expected] : cases) CHECK(written(arguments) == expected);
}

TEST_CASE("arguments that only resemble secrets keep their values") {
  for (const std::string arguments :
       {"train|--tokenizer|gpt2|--num-tokens|5|--max-tokens=4096|--n-tokens=1",
        "train|--tokens-per-step|512|--key-padding|3|--keep-last|2|--token-dropout=0.1",
        "train|--key-padding-mask|--num-key-value-heads=8|--keys|a|--monkey=5|--top-k=3",
        "train|--token-type=x|--keyword=a|--maxTokens=3", "train|key|value|token|x|the|password",
        "train|--use-key|--steps|5", "train|--token",
        "train|--api-key=", "rsync|user@host:/x|git@github.com:a/b", "train|a:b|c=d|e: f",
        "ssh://host/x|http://host:8080/a@b|tcp://[::1]:29500"}) {
    std::string expected = arguments;
    for (char& c : expected) c = c == '|' ? ' ' : c;
    CHECK(written(arguments) == expected);
  }
}

TEST_CASE("URLs lose what is in front of their host") {
  const char* cases[][2] = {
      {"pip|https://user:pass@host/x@y", "pip https://…@host/x@y"},
      {"pip|--index=https://token@host|a", "pip --index=https://…@host a"},
      {"t|redis://:p@w@h:1", "t redis://…@h:1"},
      {"t|a://u:p@h,b://u:p@h/x", "t a://…@h/x"},
      {"t|x='s3://a:b@c' y", "t x='s3://…@c' y"},
  };
  // Without a slash between them two URLs are one authority: too much is left out, not too little.
  for (const auto& [arguments, expected] : cases) {
    INFO(arguments);
    const std::string seen = written(arguments);
    if (std::string(arguments).find(",b:") == std::string::npos) CHECK(seen == expected);
    CHECK(seen.find(":p") == std::string::npos);
  }
}

TEST_CASE("a name's last word tells a secret, and some words wherever they stand") {
  for (const char* name : {"token", "--token", "HF_TOKEN", "a.b.secret", "hfToken", "APIKey",
                           "apikey", "token_", "KEY", "x-passwd", "secretKey3", "HFTOKEN",
                           "wandbapikey", "passwordFile", "my-secret-id", "db_passwd_2b"}) {
    INFO(name);
    CHECK(is_name_of_secret(name));
  }
  for (const char* name : {"", "--", "tokens", "tokenizer", "keys", "monkey", "TOKENIZER", "key_id",
                           "maxTokens", "5", "k", "ey"}) {
    INFO(name);
    CHECK_FALSE(is_name_of_secret(name));
  }
}

TEST_CASE("whatever a command line holds, it is read once and inside its bounds") {
  constexpr size_t kBytes = 1 << 20;
  const std::string_view parts[] = {"--token",
                                    "--token ",
                                    "://",
                                    "a://b:c@",
                                    "token=",
                                    "'",
                                    "\"",
                                    "token=\"\\",
                                    "+",
                                    "+token=+",
                                    "token",
                                    std::string_view("\0", 1),
                                    std::string_view("token\0", 6),
                                    "=",
                                    "Bearer ",
                                    "T",
                                    "@",
                                    "\xff"};
  for (const std::string_view part : parts) {
    INFO(part);
    std::string text;
    while (text.size() < kBytes) text += part;
    // Exactly so many bytes, so that a sanitizer sees one too far; and far too little room.
    const auto exact = std::make_unique<char[]>(text.size());
    text.copy(exact.get(), text.size());
    TextBuffer<64> out;
    write_without_secrets(out, {exact.get(), text.size()});
    CHECK(out.bytes() <= 64);
    for (size_t bytes = 0; bytes < 40; ++bytes) {
      const auto few = std::make_unique<char[]>(bytes);
      text.copy(few.get(), bytes);
      TextBuffer<200> whole;
      write_without_secrets(whole, {few.get(), bytes});
      CHECK(whole.cut_bytes() == 0);
    }
  }
}

}  // namespace
}  // namespace rollcall

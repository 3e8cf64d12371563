# rollcall_content_hash(FILE VARIABLE): the SHA-256 of a file in base64, as a
# Content-Security-Policy names a script.
function(rollcall_content_hash file variable)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  file(SHA256 ${file} digits)
  # 64 hexadecimal digits and two more are 22 times three; three are two of base64. What the two
  # that were added make is padding.
  set(digits "${digits}00")
  set(text "")
  foreach(at RANGE 0 63 3)
    string(SUBSTRING ${digits} ${at} 3 three)
    math(EXPR first "0x${three} >> 6")
    math(EXPR second "0x${three} & 63")
    string(SUBSTRING ${alphabet} ${first} 1 first)
    string(SUBSTRING ${alphabet} ${second} 1 second)
    string(APPEND text ${first} ${second})
  endforeach()
  string(SUBSTRING ${text} 0 43 text)
  set(${variable} "${text}=" PARENT_SCOPE)
endfunction()

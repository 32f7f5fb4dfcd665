# Writes the C++ file OUT, which contains the parts of the page. Called by the build as
#   cmake -DDIR=... -DOUT=... -DSCRIPTS=a.js,b.js -P page_parts.cmake
cmake_minimum_required(VERSION 3.25)
function(urtrs_embed NAME OUT_TEXT)
  set(hex "")
  foreach(file IN LISTS ARGN)
    file(READ ${DIR}/${file} bytes HEX)
    string(APPEND hex "${bytes}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND text "const unsigned char k_${NAME}[] = {${hex}};\n"
    "std::string_view ${NAME}() {\n"
    "  return {reinterpret_cast<const char*>(k_${NAME}), sizeof k_${NAME}};\n}\n")
  set(${OUT_TEXT} "${text}" PARENT_SCOPE)
endfunction()

string(REPLACE "," ";" scripts "${SCRIPTS}")
urtrs_embed(html html_text sequence.html)
urtrs_embed(style style_text sequence.css)
urtrs_embed(script script_text ${scripts})
file(WRITE ${OUT} "#include \"tools/lib/trace/sequence/page_parts.hpp\"\n"
  "namespace rtrs::tools::sequence::page_parts {\n${html_text}${style_text}${script_text}}\n")

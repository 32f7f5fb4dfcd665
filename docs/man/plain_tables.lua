-- Tables as text: the formatter of manual pages cannot break long words in narrow columns.
local options = pandoc.WriterOptions({columns = 70})

function Table(whole)
  return pandoc.CodeBlock(pandoc.write(pandoc.Pandoc({whole}), "plain", options))
end

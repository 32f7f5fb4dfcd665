# Completion of urtrs for fish. "urtrs complete" prints the words that can come next.
function __urtrs_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for word in (urtrs complete $words[2..-1] "$current" 2>/dev/null)
        if test "$word" = ":files"
            __fish_complete_path "$current"
        else
            echo $word
        end
    end
end
complete -c urtrs -f -a '(__urtrs_words)'

# Completion of urtrs for bash. "urtrs complete" prints the words that can come next.
_urtrs() {
  # Bash also splits words at colons and equals signs, which occur in addresses. So split the line at spaces instead.
  local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[^:=@]/} words current cut word
  read -r -a words <<<"$line"
  current=
  if [[ $line != *[[:blank:]] ]]; then
    current=${words[-1]}
    unset 'words[-1]'
  fi
  local found=()
  mapfile -t found < <("${COMP_WORDS[0]}" complete "${words[@]:1}" "$current" 2>/dev/null)
  # Bash replaces only the text after the last word break, so remove the part before it. An @ is itself replaced.
  cut=
  [[ -z $breaks ]] || cut=${current%"${current##*[$breaks]}"}
  cut=${cut%@}
  COMPREPLY=()
  for word in "${found[@]}"; do
    if [[ $word == :files ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "${current#*=}")
    else
      COMPREPLY+=("${word#"$cut"}")
      [[ $word != *= ]] || compopt -o nospace 2>/dev/null
    fi
  done
}
complete -F _urtrs urtrs

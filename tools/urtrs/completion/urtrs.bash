# Completion of urtrs for bash. The words come from "urtrs complete", which knows what can come next and what runs now.
_urtrs() {
  # Bash cuts words at colons and equals signs too; addresses have both. So the line is cut at blanks instead.
  local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[^:=@]/} words current cut word
  read -r -a words <<<"$line"
  current=
  if [[ $line != *[[:blank:]] ]]; then
    current=${words[-1]}
    unset 'words[-1]'
  fi
  local found=()
  mapfile -t found < <("${COMP_WORDS[0]}" complete "${words[@]:1}" "$current" 2>/dev/null)
  # Bash replaces what is behind the last of these places, and from the place on where it is an @.
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

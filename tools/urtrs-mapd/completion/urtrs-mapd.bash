# Completion of urtrs-mapd for bash: options, file names and group names.
_urtrs_mapd() {
  local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}
  # Bash splits --option=value into three words.
  [[ $option != "=" ]] || option=${COMP_WORDS[COMP_CWORD - 2]}
  [[ $current != "=" ]] || { option=${COMP_WORDS[COMP_CWORD - 1]} current=; }
  case $option in
    --state | --nbdkit)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --control-group) mapfile -t COMPREPLY < <(compgen -g -- "$current") ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "--state= --control-group= --nbdkit= --end-devices --kernel-devices --help --version --json" -- "$current")
      [[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>/dev/null ;;
  esac
}
complete -F _urtrs_mapd urtrs-mapd

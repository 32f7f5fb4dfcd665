# title: fio with checksums while one of two paths is cut and healed repeatedly
# only: paths=2
# fast: yes
# duration: 600 fast 40
# together: yes
# If all pairs of peers run at the same time ("all-all"), each uses its own disk; cutting and healing affects all of
# them.
pairs=$CLIENT-$SERVER
if [ "$pairs" = all-all ]; then pairs="kernel-kernel kernel-urtrs urtrs-kernel urtrs-urtrs"; fi
QUEUE_DEPTH=512
read -ra order <<<"$pairs"
DISKS=${#order[@]}
declare -A shortest longest
as() {  # as DISK: makes the functions of the lab act for the pair of peers that uses this disk
  CLIENT=${order[$1]%-*} SERVER=${order[$1]#*-} PORT=
  if [ "$DISKS" != 1 ] && [ "$SERVER" = kernel ]; then PORT=1235; fi
}
# every_pair SECONDS NAME CONDITION...: waits until the condition holds for each pair, and records the
# shortest and the longest time.
every_pair() {
  local limit=$1 name=$2 began disk waiting=${!order[*]} still took
  shift 2
  began=$(now)
  [ -z "${LAB_COUNTED-}" ] || limit=$((3 * limit))
  while [ -n "$waiting" ]; do
    still=
    for disk in $waiting; do
      as "$disk"
      if "$@" "$disk"; then
        took=$(hundredths "$(since "$began")")
        note "${order[disk]}: $name after $(since "$began") s"
        [ "${shortest[$name:${order[disk]}]-$took}" -lt "$took" ] || shortest[$name:${order[disk]}]=$took
        [ "${longest[$name:${order[disk]}]-0}" -gt "$took" ] || longest[$name:${order[disk]}]=$took
      else
        still+="$disk "
      fi
    done
    waiting=$still
    [ -z "$waiting" ] || [ "$(hundredths "$(since "$began")")" -lt $((100 * limit)) ] ||
      fail "not $name after $limit s: $(for disk in $waiting; do echo "${order[disk]}"; done)"
    pause 0.2
  done
}
# pair_figure NAME DISK VALUE UNIT: reports a measured value of one pair.
pair_figure() { if [ "$DISKS" = 1 ]; then figure "$1" "$3" "$4"; else figure "$1:${order[$2]}" "$3" "$4"; fi; }
seconds() { printf '%d.%02d' $(($1 / 100)) $(($1 % 100)); }

for disk in "${!order[@]}"; do
  as "$disk"
  # Start each server only once, because it serves both kinds of clients.
  case " ${served-} " in *" $SERVER "*) ;; *) server_start; served="${served-} $SERVER" ;; esac
done
for disk in "${!order[@]}"; do
  as "$disk"
  client_map "$disk" rw "lab-$SERVER"
  # The rate is low, so that the host is not overloaded, and so that the path may be idle when it is cut.
  load_start "$disk" "--rate_iops=$((25 / DISKS))"
done
began=$(now)
rounds=0
one_path() { paths_are 1 "$1"; }
while [ "$(hundredths "$(since "$began")")" -lt $((DURATION * 100)) ]; do
  path=$((rounds % 2 + 1))
  case $((rounds % 3)) in 0) how=both ;; 1) how=to-server ;; 2) how=to-client ;; esac
  note "round $rounds: path $path loses $how"
  lose $path $how
  every_pair 60 noticed one_path
  sleep 1
  for disk in "${!order[@]}"; do load_alive "$disk"; done
  heal_all
  every_pair 120 healed all_paths
  sleep 2
  rounds=$((rounds + 1))
done
for disk in "${!order[@]}"; do
  as "$disk"
  load_stop "$disk"
  pair_figure cut_heal_rounds "$disk" $rounds rounds
  pair_figure cut_heal_blocks "$disk" "$load_writes" writes
  for name in noticed healed; do
    pair_figure "cut_heal_${name}_least" "$disk" "$(seconds "${shortest[$name:${order[disk]}]}")" s
    pair_figure "cut_heal_${name}_most" "$disk" "$(seconds "${longest[$name:${order[disk]}]}")" s
  done
  client_unmap "$disk"
done

# title: fio with checksums while one of two paths is cut and healed again and again
# only: paths=2
# fast: yes
# duration: 600 fast 40
server_start
client_map 0
# So little that the other processes of the machine are not in need, and the path that is cut may be idle.
load_start 0 --rate_iops=25
began=$(now)
rounds=0
while [ "$(hundredths "$(since "$began")")" -lt $((DURATION * 100)) ]; do
  path=$((rounds % 2 + 1))
  case $((rounds % 3)) in 0) how=both ;; 1) how=to-server ;; 2) how=to-client ;; esac
  note "round $rounds: path $path loses $how"
  lose $path $how
  wait_for 60 "one path is lost" paths_are 1
  sleep 1
  load_alive
  heal_all
  wait_for 120 "all paths connected" all_paths
  sleep 2
  rounds=$((rounds + 1))
done
load_stop
figure cut_heal_rounds $rounds rounds
client_unmap 0

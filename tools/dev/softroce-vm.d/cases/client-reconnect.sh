# title: path 1 is disconnected and reconnected by the client under load
# only: client=kernel
# limit: 300
server_start
client_map 0
paths=(/sys/class/rtrs-client/$SESSION/paths/*)
if [ "$PATHS" = 2 ]; then load_start 0; fi
for _ in 1 2 3; do
  echo 1 >"${paths[0]}/disconnect"
  wait_for 10 "path disconnected" paths_are $((PATHS - 1))
  echo 1 >"${paths[0]}/reconnect"
  wait_for 60 "all paths connected" all_paths
done
if [ "$PATHS" = 2 ]; then load_stop; fi
device_open() { grep -qx open "/sys/block/$(cat "$RUN/device0")/rnbd/state"; }
wait_for 20 "device open" device_open
verify 0 --rw=randwrite --bs=16k --size=2M --iodepth=8
client_unmap 0

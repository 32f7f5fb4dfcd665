# title: md-raid1 with a bitmap over two servers: one is killed under load and restarted; its leg is resynchronised
# only: client=kernel server=urtrs
# limit: 600
# unpacks: mdadm
DISKS=2
DISK_MIB=16
command -v mdadm >/dev/null || skip "no mdadm: its package is not installed and could not be fetched"
modprobe -a raid1 md-mod || skip "this kernel has no raid1"
array=/dev/md7

# leg_start N: starts the server of leg N. Each leg has a server with its own port and disk.
leg_start() {
  local n options=()
  for n in $(seq "$PATHS"); do options+=(--listen "$(address "$n" server)"); done
  "$LAB_BUILD/tools/urtrsd/urtrsd" --fabric "$LAB_FABRIC" "${options[@]}" --port $((1234 + $1)) --control "" \
    --export "loop$1=/dev/loop$1" --queue-depth "$QUEUE_DEPTH" --always-invalidate true \
    ${RDMA_POST:+--rdma-post "$RDMA_POST"} >"$RUN/leg$1.log" 2>&1 &
  leg_pid[$1]=$!
  disown
  wait_quietly 30 grep -q ' ready$' "$RUN/leg$1.log" || { cat "$RUN/leg$1.log"; fail "the server of leg $1 did not start"; }
}
leg_is() { grep -qx "$2" "/sys/block/$(basename "$(device "$1")")/rnbd/state"; }
legs_up() { [ "$(cat /sys/block/md7/md/degraded)" = "$1" ]; }
is_idle() { [ "$(cat /sys/block/md7/md/sync_action)" = idle ]; }
end_array() { mdadm --stop $array >/dev/null 2>&1 || true; }

make_disks
for n in 0 1; do
  leg_start $n
  PORT=$((1234 + n)) kernel_map $n rw leg$n
done
trap 'code=$?; [ $code = 0 ] || [ $code = 77 ] || diagnose $code; end_array' EXIT
mdadm --create $array --run --level=1 --raid-devices=2 --metadata=1.2 --bitmap=internal --bitmap-chunk=64K \
  "$(device 0)" "$(device 1)" >"$RUN/mdadm.log" 2>&1 || { cat "$RUN/mdadm.log"; fail "mdadm --create"; }
wait_for 120 "the first resync is done" is_idle
fio --name=load --filename=$array --size=8M --direct=1 --ioengine=libaio --rw=randwrite --bs=16k --iodepth=4 --time_based \
  --runtime=3600 --rate_iops=25 --verify=crc32c --verify_backlog=64 --verify_fatal=1 --eta=never --output-format=json \
  --output="$RUN/load0.json" >"$RUN/fio0.log" 2>&1 &
load_pid[0]=$!
has_written() { [ "$(awk '{ print $5 }' /sys/block/md7/stat)" -gt "$1" ]; }
wait_for 60 "the load writes" has_written 50
began=$(now)
kill -KILL "${leg_pid[1]}"
wait_for 90 "leg 1 is out of the array" legs_up 1
figure raid_leg_lost "$(since "$began")" s
written=$(awk '{ print $5 }' /sys/block/md7/stat)
wait_for 60 "IO goes on with leg 0 alone" has_written $((written + 50))
load_alive
leg_start 1
began=$(now)
wait_for 120 "the client is back at leg 1" leg_is 1 open
figure raid_leg_back "$(since "$began")" s
mdadm $array --fail "$(device 1)" >/dev/null 2>&1 || true
mdadm $array --remove "$(device 1)" >"$RUN/mdadm.log" 2>&1 || true
began=$(now)
mdadm $array --re-add "$(device 1)" >"$RUN/mdadm.log" 2>&1 || { cat "$RUN/mdadm.log"; fail "mdadm --re-add"; }
wait_for 120 "both legs are in the array" legs_up 0
figure raid_resync "$(since "$began")" s
load_alive
load_stop
wait_for 60 "nothing is left to resynchronise" is_idle
echo check >/sys/block/md7/md/sync_action
wait_for 120 "the legs are compared" is_idle
[ "$(cat /sys/block/md7/md/mismatch_cnt)" = 0 ] || fail "$(cat /sys/block/md7/md/mismatch_cnt) sectors of the legs differ"
mdadm --stop $array
for n in 0 1; do disk_settle $n; done
# Compares only the data. The superblocks of the legs differ; they say where the data starts.
offset=$(mdadm --examine "$(device 0)" | sed -n 's/.*Data Offset : \([0-9]*\) sectors.*/\1/p')
[ -n "$offset" ] || fail "mdadm --examine says no data offset"
cmp -i $((offset * 512)) "$(disk_file 0)" "$(disk_file 1)" || fail "the files behind the two servers differ"
client_unmap 0
client_unmap 1

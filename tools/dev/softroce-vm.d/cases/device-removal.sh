# title: the server's RDMA device of path 1 is removed under load, and added again
# only: server=urtrs paths=2
# limit: 400
server_start
client_map 0
wait_for 5 "all paths connected" all_paths
load_start 0
probe_start 0
sleep 1
# Runs in the background, because soft-RoCE blocks until the last process that has opened the device (the
# server) exits.
rdma link delete rxe1s &
removal=$!
wait_for 60 "the path is lost" paths_are 1
wait_for 30 "IO flows on the other path" probe_flows_since "$(now)"
load_alive
[ -n "$(pids_of urtrsd)" ] || fail "urtrsd is gone"
load_stop
probe_stop
[ "$probe_errors" = 0 ] || fail "$probe_errors IOs failed"
server_stop
wait $removal || fail "the device is still there"
rdma link add rxe1s type rxe netdev path1s
server_start
wait_for 120 "all paths connected" all_paths
device_open() { [ "$CLIENT" = urtrs ] || grep -qx open "/sys/block/$(cat "$RUN/device0")/rnbd/state"; }
wait_for 20 "device open" device_open
verify 0 --rw=randwrite --bs=16k --size=2M --iodepth=8
client_unmap 0

# title: the server closes every path and keeps running; the client reconnects
# only: server=kernel
# limit: 300
server_start
client_map 0
probe_start 0
sleep 1
began=$(now)
server_drop_paths
wait_for 20 "the client has lost its paths" some_path_lost
wait_for 90 "all paths connected" all_paths
figure disconnect_back "$(since "$began")" s
wait_for 30 "IO flows" probe_flows_since "$(now)"
probe_stop
[ "$CLIENT" = kernel ] || [ "$probe_errors" = 0 ] || fail "$probe_errors errors"
verify 0 --rw=randwrite --bs=16k --size=2M --iodepth=8
client_unmap 0

# title: the server hangs (SIGSTOP) for longer than the heartbeat timeout, then continues
# only: server=urtrs
# limit: 400
server_start
client_map 0
probe_start 0
sleep 1
began=$(now)
signal_all STOP urtrsd
wait_for 60 "the client has given up its paths" paths_are 0
figure freeze_detected "$(since "$began")" s
signal_all CONT urtrsd
thawed=$(now)
wait_for 120 "all paths connected" all_paths
figure freeze_reconnect "$(since "$thawed")" s
wait_for 60 "IO flows" probe_flows_since "$(now)"
probe_stop
[ "$CLIENT" = kernel ] || [ "$probe_errors" = 0 ] || fail "$probe_errors errors"
verify 0 --rw=randwrite --bs=16k --size=2M --iodepth=8
client_unmap 0

# title: the kernel's client on a host with 256 possible processors: 257 connections per path
# only: client=kernel server=urtrs
# limit: 600
# kernels: 6.1
# possible_cpus: 256
# The queues of each connection have this depth. At 16, the memory of the guest is sufficient for 514 connections.
QUEUE_DEPTH=16
[ "$(cat /sys/devices/system/cpu/possible)" = 0-255 ] || fail "possible processors: $(cat /sys/devices/system/cpu/possible)"
server_start
client_map 0
wait_for 30 "all paths connected" all_paths
connections=$(rdma resource show qp | grep -c 'comm urtrsd')
[ "$connections" -ge $((257 * PATHS)) ] || fail "$connections connections"
figure many_connections_rss "$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$(pids_of urtrsd | head -1)/status")" KiB
verify 0 --rw=randwrite --bs=4k --size=2M --iodepth=8
client_unmap 0

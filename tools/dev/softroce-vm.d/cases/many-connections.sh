# title: the kernel's client of a host with 128 possible processors and as many poll queues, 257 connections for a path
# only: client=kernel server=urtrs
# limit: 600
# possible_cpus: 128
# The queues of each connection are as long as this; 257 of them have to fit into the guest.
QUEUE_DEPTH=16
POLL_QUEUES=128
server_start
client_map 0
wait_for 30 "all paths connected" all_paths
connections=$(rdma resource show qp | grep -c 'comm urtrsd')
[ "$connections" -ge $((257 * PATHS)) ] || fail "$connections connections"
figure many_connections_rss "$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$(pids_of urtrsd | head -1)/status")" KiB
verify 0 --rw=randwrite --bs=4k --size=2M --iodepth=8
verify 0 --rw=randrw --bs=4k --size=1M --iodepth=1 --ioengine=pvsync2 --hipri
client_unmap 0

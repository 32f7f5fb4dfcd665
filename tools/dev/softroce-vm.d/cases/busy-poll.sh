# title: a server that busy-polls
# only: server=urtrs
QUEUE_DEPTH=512
URTRSD_OPTIONS="--busy-poll true"
server_start
client_map 0
verify 0 --rw=randwrite --bs=4k --size=2M --iodepth=8
verify 0 --rw=randwrite --bsrange=4k-128k --size=4M --iodepth=16
client_unmap 0

# title: 4 x 64 IOs submitted at once to a session of depth 8
# fast: yes
QUEUE_DEPTH=8
server_start
client_map 0
verify 0 --rw=randwrite --bs=4k --size=1M --offset_increment=4M --iodepth=64 --numjobs=4 --group_reporting
verify 0 --rw=randrw --bs=64k --size=2M --offset_increment=4M --iodepth=64 --numjobs=4 --group_reporting
client_unmap 0

# title: one device is mapped and unmapped once, then many times; the server releases all resources each time
# only: client=kernel
# limit: 600
server_start
client_map 0
client_unmap 0
wait_for 40 "the server has forgotten the session" server_has_no_session
times=20
began=$(now)
for _ in $(seq $times); do
  kernel_map 0 rw "$SESSION"
  client_unmap 0
done
figure map_unmap_20_times "$(since "$began")" s
wait_for 40 "the server has forgotten the sessions" server_has_no_session
client_map 0
verify 0 --rw=randwrite --bs=16k --size=1M --iodepth=4
client_unmap 0

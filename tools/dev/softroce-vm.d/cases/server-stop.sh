# title: the server is stopped in order under load, and started again
# limit: 400
server_comes_back server_stop

# title: the server is killed under load, and started again
# limit: 400
server_comes_back server_kill

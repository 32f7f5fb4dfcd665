# title: the server is killed under load and restarted
# limit: 400
server_comes_back server_kill
